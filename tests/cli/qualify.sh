# SPDX-License-Identifier: Apache-2.0
# Sourced by the command tests of qualify: a tiny model, short runs on it, and a look at what they left behind.
# shellcheck shell=bash

# Compiles in half the time; the arithmetic is the same.
export XLA_FLAGS=--xla_backend_optimization_level=0
export COLUMNS=100
# Where the address sanitizer is built in: a worker's SIGSEGV stays one.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}handle_segv=0
# Every process that a test starts has it in its environment.
export QUALIFY_TEST_MARK=$$-$RANDOM$RANDOM

faulty=$BUILD/faulty_plugin.so
ones() { # for tests of all but the numbers: programs compile at once and return ones
    export ASSAY_FAULT_ONES=1 ASSAY_PLUGIN_PATH=$faulty
}

tiny() { # tiny [OPTION...]: the model directory `model`, made anew
    rm -rf model
    "$BUILD/make-tiny-model" "$@" model
}

texts() { # texts N: a file of N different lines
    local i
    for ((i = 0; i < $1; i++)); do
        printf '%s the %s\n' "$(printf %03d "$i" | tr 0-9 a-j)" "$(printf %02d $((i * 7 % 100)) | tr 0-9 k-t)"
    done >texts
}

short=(--batch 4 --samples 2 --warmup 0)
qualify() { # qualify ARGUMENT...: a short run on `model` into `run`; keeps stdout and stderr, prints its exit status
    local status=0
    "$ASSAY" qualify model --text texts --run-dir run "${short[@]}" "$@" >stdout 2>stderr || status=$?
    echo "status $status"
}

clean() {
    rm -rf run run.*
}

what_is_left() { # names of what a run left, without the PID
    find . -maxdepth 1 -name 'run*' | sed 's/-[0-9]*$/-PID/' | sort
}

said() { # the last line of stderr, without what differs from place to place
    tail -n 1 stderr | sed "s#/[^ ]*pjrt_c_api_cpu_plugin.so#PLUGIN#g; s#$BUILD#BUILD#g; s#$TOP#TOP#g; s#looked for: .*#looked for: PLACES#; s#there is a plugin for: cpu[a-z, ]* (#there is a plugin for: cpu (#"
}

refused() { # refused ARGUMENT...: a run that ends before a record is begun
    qualify "$@"
    said
    [ -z "$(what_is_left)" ] || what_is_left
    clean
}

failed() { # failed ARGUMENT...: a run that leaves a failed record, which says what stderr says
    qualify "$@"
    said
    what_is_left
    follows assay.failure.1.json run.failed-*/failure.json
    follows assay.record.config.1.json run.failed-*/config.json
    [ ! -e run.failed-*/report.json ] || echo "a failed record with a report"
    grep -qF -- "$("$BUILD/json-get" run.failed-*/failure.json error.message)" stderr || echo "failure.json says something else"
    clean
}

follows() { # follows SCHEMA FILE...
    "$BUILD/check-schema" "$@" || echo "$*: no"
}

get() { # get FILE PATH...
    "$BUILD/json-get" "$@"
}

no_process_left() { # waits for processes of this test that are about to end
    local i pid
    for ((i = 0; i < 100; i++)); do
        pid=$(marked)
        [ -n "$pid" ] || return 0
        sleep 0.1
    done
    echo "still running: $pid"
}

marked() { # programs of ours that are running, this shell's own left out
    grep -lszx "QUALIFY_TEST_MARK=$QUALIFY_TEST_MARK" /proc/[0-9]*/environ 2>/dev/null | while IFS=/ read -r _ _ pid _; do
        case $(readlink "/proc/$pid/exe" 2>/dev/null) in
        */assay | */assay-worker) echo "$pid" ;;
        esac
    done
}
