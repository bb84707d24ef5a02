# SPDX-License-Identifier: Apache-2.0
# Sourced by the command tests of `bench --stages`: the small image pipeline, and options that make its runs short.
# shellcheck shell=bash disable=SC2034

# Compiles in half the time; what is timed is the same.
export XLA_FLAGS=--xla_backend_optimization_level=0

small=(--height 32 --width 48 --steps 2 --samples 2 --requests 1 --warmup 0 --calib-size 64)

folder() { # the folder `model`
    "$BUILD/make-tiny-flux2" model
    mkdir model/tokenizer # every byte a token, and those of the template
    {
        local high=256 separator='{' byte letter
        for byte in {0..255}; do
            letter=$byte
            if ((byte < 33 || byte == 127 || byte > 127 && byte < 161 || byte == 173)); then letter=$((high++)); fi
            printf '%s"\\u%04x": %d' "$separator" "$letter" "$byte"
            separator=,
        done
        echo '}'
    } >model/tokenizer/vocab.json
    echo '#version: 0.2' >model/tokenizer/merges.txt
    echo '{"<|im_start|>": 256, "<|im_end|>": 257, "<think>": 258, "</think>": 259, "<|endoftext|>": 260}' \
        >model/tokenizer/added_tokens.json
}
