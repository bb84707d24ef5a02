// SPDX-License-Identifier: Apache-2.0
// Traces in Chrome's JSON, seen as profiles: each case's rows are what the CSV of the profile says, in its order
// (plane, line, name, start_ps, duration_ps, arguments), worked out by hand from the format's description.
#include "trace/chrome.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "fixture.h"
#include "made_trace.h"
#include "test.h"
#include "trace/convert.h"
#include "trace/ops.h"

// A profile in another form, as a file and as its text.
static bool convert(const char *from, const char *to, enum trace_form form, struct str *text)
{
    struct trace t;
    struct sink sink = {.fd = -1};
    struct trace_converted done;
    struct error e = {0};
    int rc = trace_open(&t, &from, 1, &e);
    if (!rc)
        rc = sink_open(&sink, to, false, true, &e);
    if (!rc)
        rc = trace_convert(&t, NULL, form, &sink, &done, &e);
    if (!rc)
        rc = sink_commit(&sink, &e);
    sink_abort(&sink);
    trace_close(&t);
    if (!rc && text) {
        str_clear(text);
        rc = file_read(text, to, (size_t)1 << 30, &e);
    }
    if (rc)
        test_fail_error(__FILE__, __LINE__, from, e.where, e.message);
    return rc == 0;
}

// ---- There and back

static const char *const recorded[] = {"cpu-small", "gpu-gtx1080ti-2x", "gpu-mi300x-jax-conv", "gpu-mi300x-jax-gemm",
                                       "tpu-v6e-4chip-inference"};

// Every event of a recorded profile comes back with its line, name, picoseconds and arguments, and the JSON of what
// came back is the same to the byte: so ids of planes and lines, facts of devices, long names, counters and arrows are
// there too.
TEST(trace_chrome_there_and_back)
{
    struct str before, after;
    str_init(&before);
    str_init(&after);
    for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++) {
        const char *path = fixture_profile(recorded[i]);
        REQUIRE(convert(path, test_below("a.csv"), TRACE_CSV, &before));
        REQUIRE(convert(path, test_below("a.json"), TRACE_CHROME, NULL));
        REQUIRE(convert(test_below("a.json"), test_below("b.xplane.pb"), TRACE_XSPACE, NULL));
        REQUIRE(convert(test_below("b.xplane.pb"), test_below("b.csv"), TRACE_CSV, &after));
        CHECK(before.length > 1000 && strcmp(str_text(&before), str_text(&after)) == 0);
        REQUIRE(
            convert(test_below("a.json"), test_below("same.csv"), TRACE_CSV, &after)); // without the profile between
        CHECK(strstr(str_text(&before), "\n\"") && strstr(str_text(&after), "\n\""));
        REQUIRE(convert(test_below("a.json"), test_below("c.json"), TRACE_CHROME, &after));
        REQUIRE(convert(path, test_below("a.json"), TRACE_CHROME, &before));
        CHECK(strcmp(str_text(&before), str_text(&after)) == 0);
    }
    str_release(&before);
    str_release(&after);
}

// What is lost, and nothing else: planes and lines without events, programs, bytes (their number stays), the difference
// of an integer with a sign and one without, sums without a place in time, and what a row says of all its events is
// said of each, operations of TPUs apart.
TEST(trace_chrome_what_is_lost)
{
    struct made m;
    made_begin(&m);
    made_plane(&m, "/device:TPU:0");
    made_line(&m, "XLA Ops", 0);
    made_event(&m, "op", 1000, 10);
    made_number(&m, "n", -7);
    made_text(&m, "t", "text");
    made_line(&m, "nothing", 0);
    made_plane(&m, "empty");
    made_plane(&m, "/host:metadata");
    made_note(&m, 3, "a warning");
    made_note(&m, 4, "worker-3");
    REQUIRE(convert(made_end(&m, "m"), test_below("m.json"), TRACE_CHROME, NULL));
    const char *path = test_below("m.json");
    struct trace t;
    struct error e = {0};
    REQUIRE_OK(trace_open(&t, &path, 1, &e), &e);
    const struct xspace *x = &t.files[0].space;
    CHECK(!x->damage.what && x->n_warnings == 0);
    CHECK_STR(t.files[0].host, "worker-3");
    REQUIRE(x->n_planes == 1 && x->planes[0].n_lines == 1);
    CHECK(slice_is(x->planes[0].name, "/device:TPU:0") && slice_is(x->planes[0].lines[0].name, "XLA Ops"));
    struct xevents walk = xline_events(&x->planes[0].lines[0]);
    struct xevent v = {0};
    struct xstat s;
    REQUIRE(xevent_next(&walk, &v));
    CHECK(v.offset_ps == 1000 && v.duration_ps == 10);
    struct xstats stats = xevent_stats(&x->planes[0], &v); // in their order
    CHECK(xstat_next(&stats, &s) && s.kind == XSTAT_INT && s.integer == -7);
    CHECK(xstat_next(&stats, &s) && s.kind == XSTAT_TEXT && slice_is(s.bytes, "text"));
    CHECK(!xstat_next(&stats, &s));
    CHECK(!xevent_next(&walk, &v));
    trace_close(&t);
}

// The operations of a trace in JSON are those of the profile that it was made from, but for what only HLO says.
TEST(trace_chrome_operations)
{
    const char *paths[] = {fixture_profile("tpu-v6e-4chip-inference"), test_below("a.json")};
    REQUIRE(convert(paths[0], paths[1], TRACE_CHROME, NULL));
    struct trace_ops ops[2];
    struct trace t[2];
    struct error e = {0};
    for (int i = 0; i < 2; i++) {
        REQUIRE_OK(trace_open(&t[i], &paths[i], 1, &e), &e);
        REQUIRE_OK(trace_ops(&t[i], NULL, &ops[i], &e), &e);
    }
    REQUIRE(ops[0].n_rows == ops[1].n_rows && ops[0].n_rows > 10);
    for (size_t i = 0; i < ops[0].n_rows; i++) {
        const struct trace_op *a = &ops[0].rows[i], *b = &ops[1].rows[i];
        CHECK(slice_equal(a->name, b->name) && slice_equal(a->category, b->category) && a->program_id == b->program_id);
        CHECK(a->occurrences == b->occurrences && a->self_ps == b->self_ps && a->total_ps == b->total_ps);
    }
    CHECK(ops[0].devices.items[0].peak_flop_per_s == ops[1].devices.items[0].peak_flop_per_s);
    for (int i = 0; i < 2; i++) {
        trace_ops_release(&ops[i]);
        trace_close(&t[i]);
    }
}

// ---- Cases

struct reading {
    const char *json;
    const char *rows[8];
    const char *damage; // NULL: none
    const char *at;     // the damage is where this text is in the JSON
};

// The CSV without its head and its hosts, with single quotes and no quotes doubled.
static void plain(struct str *out, const char *csv)
{
    str_clear(out);
    const char *line = strchr(csv, '\n');
    while (line && line[1]) {
        line++;
        const char *end = strchr(line, '\n'), *at = strchr(line, ',');
        for (at = at ? at + 1 : end; at < end; at++) {
            if (*at == '"' && at[1] == '"')
                at++;
            if (*at != '\r')
                str_add_char(out, *at == '"' ? '\'' : *at);
        }
        str_add_char(out, '\n');
        line = end;
    }
}

static void check_reading(const struct reading *r)
{
    struct str csv, got, want;
    struct error e = {0};
    struct trace t;
    const char *path = test_below("case.json");
    str_init(&csv);
    str_init(&got);
    str_init(&want);
    REQUIRE_OK(file_write(path, r->json, strlen(r->json), &e), &e);
    REQUIRE(convert(path, test_below("case.csv"), TRACE_CSV, &csv));
    plain(&got, str_text(&csv));
    for (size_t i = 0; i < 8 && r->rows[i]; i++) {
        str_add(&want, r->rows[i]);
        str_add_char(&want, '\n');
    }
    CHECK_STR(str_text(&got), str_text(&want));
    REQUIRE_OK(trace_open(&t, &path, 1, &e), &e);
    const struct xdamage *d = &t.files[0].space.damage;
    CHECK_STR(d->what ? d->what : "", r->damage ? r->damage : "");
    const char *at = r->at ? strstr(r->json, r->at) : NULL;
    CHECK_INT(d->offset, at ? at - r->json : r->damage ? (ptrdiff_t)strlen(r->json) : 0);
    trace_close(&t);
    str_release(&csv);
    str_release(&got);
    str_release(&want);
}

#define ROW(name, start, duration, args) "'process 1','thread 2','" name "'," start "," duration ",1,'{" args "}'"
#define EVENT(ph, name, ts, more)        "{\"ph\":\"" ph "\",\"pid\":1,\"tid\":2,\"name\":\"" name "\",\"ts\":" ts more "}"

static const struct reading readings[] = {
    // Times are exact to the picosecond, rounded from there, and may be written in every way that JSON has.
    {"[" EVENT("X", "a", "1", ",\"dur\":2") "," EVENT("X", "b", "1.000001", ",\"dur\":0.000001") "," EVENT(
         "X", "c", "2e0", ",\"dur\":1.5E-06") "," EVENT("X", "d", "\"3.25\"", "") "," EVENT("X", "e", "4.0000004999",
                                                                                            "") "]",
     {ROW("a", "1000000", "2000000", ""), ROW("b", "1000001", "1", ""), ROW("c", "2000000", "2", ""),
      ROW("d", "3250000", "0", ""), ROW("e", "4000000", "0", "")},
     NULL,
     NULL},
    // In any order; what lies around others comes first, as profiles have it.
    {"[" EVENT("X", "late", "9", ",\"dur\":1") "," EVENT("X", "inner", "1", ",\"dur\":1") "," EVENT(
         "X", "outer", "1", ",\"dur\":3") "," EVENT("X", "before", "-1.5", ",\"dur\":1") "]",
     {ROW("before", "-1500000", "1000000", ""), ROW("outer", "1000000", "3000000", ""),
      ROW("inner", "1000000", "1000000", ""), ROW("late", "9000000", "1000000", "")},
     NULL,
     NULL},
    // Begins and ends: nested, the arguments of both, in the wrong order in the file, and without a name.
    {"[" EVENT("B", "out", "1", ",\"args\":{\"x\":1}") "," EVENT("E", "in", "3", "") "," EVENT(
         "B", "in", "2", "") ",{"
                             "\"ph\":\"E\",\"pid\":1,\"tid\":2,\"ts\":5,\"args\":{\"y\":2}}]",
     {ROW("out", "1000000", "4000000", "'x':1,'y':2"), ROW("in", "2000000", "1000000", "")},
     NULL,
     NULL},
    // An end belongs to the begin of its name: events may overlap in part.
    {"[" EVENT("B", "a", "1", "") "," EVENT("B", "b", "2", "") "," EVENT("E", "a", "3", "") "," EVENT("E", "b", "4",
                                                                                                      "") "]",
     {ROW("a", "1000000", "2000000", ""), ROW("b", "2000000", "2000000", "")},
     NULL,
     NULL},
    {"[" EVENT("B", "a", "1", "") "," EVENT("X", "b", "2", ",\"dur\":7") "]",
     {ROW("a", "1000000", "8000000", ""), ROW("b", "2000000", "7000000", "")},
     "an event begins that does not end",
     "{\"ph\":\"B\""},
    {"[" EVENT("X", "a", "1", "") "," EVENT("E", "b", "2", "") "]",
     {ROW("a", "1000000", "0", "")},
     "an event ends that has not begun",
     "{\"ph\":\"E\""},
    // Instants, and asynchronous spans that overlap: a line of their own.
    {"[" EVENT("i", "i", "1", ",\"s\":\"g\"") "," EVENT("b", "r", "1", ",\"cat\":\"net\",\"id\":7") "," EVENT(
         "b", "r", "2",
         ",\"cat\":\"net\",\"id\":\"8\"") "," EVENT("e", "r", "3",
                                                    ",\"cat\":\"net\",\"id\":7") "," EVENT("n", "m", "3",
                                                                                           ",\"cat\":\"net\","
                                                                                           "\"id2\":{\"local\":"
                                                                                           "\"8\"}") "," EVENT("e", "r",
                                                                                                               "4",
                                                                                                               ",\"c"
                                                                                                               "at\""
                                                                                                               ":\"n"
                                                                                                               "et\""
                                                                                                               ",\"i"
                                                                                                               "d\":"
                                                                                                               "\"8"
                                                                                                               "\"") "]",
     {ROW("i", "1000000", "0", ""), "'process 1','Async net','r',1000000,2000000,1,'{'cat':'net','id':'7'}'",
      "'process 1','Async net','r',2000000,2000000,1,'{'cat':'net','id':'8'}'",
      "'process 1','Async net','m',3000000,0,1,'{'cat':'net','id':'8'}'"},
     NULL,
     NULL},
    // Counters, with several series, and as our own converter writes them.
    {"[" EVENT("C", "mem", "1", ",\"args\":{\"used\":3,\"free\":0.5}") "," EVENT("C", "row: stat", "2",
                                                                                 ",\"args\":{\"value\":1.0}") "]",
     {"'process 1','_counters_','mem',1000000,0,1,'{'used':3,'free':0.5}'",
      "'process 1','_counters_','row',2000000,0,1,'{'stat':1.0}'"},
     NULL,
     NULL},
    // Arrows become the flow of the innermost event, or of the next one; not where an event says its own.
    {"[" EVENT("X", "out", "1", ",\"dur\":8") "," EVENT("X", "in", "2", ",\"dur\":2") "," EVENT("s", "f", "3", ",\"id\":1") "," EVENT(
         "f", "f", "5",
         ",\"id\":1,\"bp\":\"e\"") "," EVENT("t", "f", "7",
                                             ",\"id\":1") "," EVENT("f", "f", "9.5",
                                                                    ",\"id\":1") "," EVENT("X", "own", "10",
                                                                                           ",\"dur\":1,\"args\":"
                                                                                           "{\"correlation_id\":"
                                                                                           "5}") "," EVENT("f", "f",
                                                                                                           "10."
                                                                                                           "5",
                                                                                                           ",\"i"
                                                                                                           "d\":"
                                                                                                           "1,"
                                                                                                           "\"bp"
                                                                                                           "\":"
                                                                                                           "\"e"
                                                                                                           "\"") "]",
     // direction (2 out, 1 in, 3 both) | 4 * the arrow's number
     {ROW("out", "1000000", "8000000", "'flow':5,'flow':7"), ROW("in", "2000000", "2000000", "'flow':6"),
      ROW("own", "10000000", "1000000", "'correlation_id':5")},
     NULL,
     NULL},
    // Names of processes and threads that come last; texts as ids; sort indices.
    {"[{\"ph\":\"i\",\"ts\":1,\"name\":\"a\",\"pid\":\"p\",\"tid\":\"t\"},{\"ph\":\"i\",\"ts\":1,\"name\":\"b\",\"pid\""
     ":7,\"tid\":8},{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":7,\"args\":{\"sort_index\":-1}},{\"ph\":\"M\""
     ",\"name\":\"thread_name\",\"pid\":7,\"tid\":8,\"args\":{\"name\":\"main\"}},{\"ph\":\"M\",\"name\":\"process_"
     "name\""
     ",\"pid\":7,\"args\":{\"name\":\"/device:GPU:0\"}}]",
     {"'/device:GPU:0','main','b',1000000,0,1,'{}'", "'p','t','a',1000000,0,1,'{}'"},
     NULL,
     NULL},
    // Arguments: numbers keep their kinds, large ones come as texts, what is nested stays JSON, the last of two counts.
    {"[" EVENT(
         "X", "a", "1",
         ",\"cat\":\"k\",\"args\":{\"i\":-3,\"d\":2.0,\"big\":\"18446744073709551615\",\"small\":\"12\",\"flops\":"
         "\"12\",\"t\":true,\"z\":null,\"n\":[1,{\"m\":[]}],\"u\":\"\\u00e9\\ud83d\\ude00\\n\"},\"ts\":2") "]",
     {ROW("a", "2000000", "0",
          "'i':-3,'d':2.0,'big':'18446744073709551615','small':'12','flops':12,'t':1,'n':'[1,{\\'m\\':[]}]','u':"
          "'\xc3\xa9\xf0\x9f\x98\x80\\n','cat':'k'")},
     NULL,
     NULL},
    // An open list is whole, also behind a comma; an empty object is nothing.
    {"[" EVENT("X", "a", "1", "") ",{},\n", {ROW("a", "1000000", "0", "")}, NULL, NULL},
    // Around the list anything may stand.
    {"\xef\xbb\xbf {\"displayTimeUnit\":\"ms\",\"x\":{\"a\":[1,[2]]},\"traceEvents\":[" EVENT(
         "X", "a", "1", "") "],"
                            "\"traceName\":null}\n",
     {ROW("a", "1000000", "0", "")},
     NULL,
     NULL},
    // Damage: what is before it stands, and what is after an event that is none.
    {"{\"traceEvents\":[" EVENT("X", "a", "1", "") ",{\"ph\":\"X\",\"ts\":2,\"zz",
     {ROW("a", "1000000", "0", "")},
     "a text does not end",
     "\"zz"},
    {"{\"traceEvents\":[" EVENT("X", "a", "1", ""), {ROW("a", "1000000", "0", "")}, "it ends in the middle", NULL},
    {"[" EVENT("X", "a", "1", "") "," EVENT("X", "b", "2", "") "x" EVENT("X", "c", "3", "") "]",
     {ROW("a", "1000000", "0", ""), ROW("b", "2000000", "0", "")},
     "a comma or ] is missing",
     "x{"},
    {"[" EVENT("X", "a", "\"soon\"", "") ",7,[[1],{}],{\"ts\":1}," EVENT("X", "b", "2", ",\"dur\":-1") "," EVENT(
         "X", "c", "9e99", "") "," EVENT("X", "d", "3", "") "]",
     {ROW("d", "3000000", "0", "")},
     "is no time",
     "{\"ph\":\"X\""},
    {"[" EVENT("X", "a\xff", "1", "") "," EVENT("X", "\\ud800", "2", "") "]",
     {ROW("a\xef\xbf\xbd", "1000000", "0", ""), ROW("\xef\xbf\xbd", "2000000", "0", "")},
     "a text is not UTF-8",
     "a\xff"},
    {"[" EVENT("X", "a", "1", ",\"cat\":{\"\xff\":1}") "]",
     {ROW("a", "1000000", "0", "'cat':'{\\'\xef\xbf\xbd\\':1}'")},
     "a text is not UTF-8",
     "{\"\xff"},
    {"[" EVENT("X", "a", "1", "") "] trailing",
     {ROW("a", "1000000", "0", "")},
     "something follows the end of the JSON",
     "trailing"},
    // 10^6 seconds are within 53 days of the first event, 10^7 are not.
    {"[" EVENT("X", "a", "1", "") "," EVENT("X", "b", "1e12", "") "," EVENT("X", "c", "1e13", "") "]",
     {ROW("a", "1000000", "0", ""), ROW("b", "1000000000000000000", "0", "")},
     "is more than 53 days from the first event",
     "1e13"},
};

TEST(trace_chrome_readings)
{
    for (size_t i = 0; i < sizeof readings / sizeof *readings; i++)
        check_reading(&readings[i]);
}

static bool open_text(struct trace *t, const char *json, size_t size, struct error *err)
{
    const char *path = test_below("text.json");
    *err = (struct error){0};
    return file_write(path, json, size, err) == 0 && trace_open(t, &path, 1, err) == 0;
}

// Unix times would not fit: lines count from the first event, and the profile says when that was.
TEST(trace_chrome_unix_times)
{
    static const char json[] =
        "[" EVENT("X", "b", "1700000000000001.5", ",\"dur\":1") "," EVENT("X", "a", "1700000000000000.000001", "") "]";
    struct trace t;
    struct error e;
    REQUIRE(open_text(&t, json, sizeof json - 1, &e));
    const struct xplane *environment = xspace_plane(&t.files[0].space, "Task Environment");
    struct xplane *p = &t.files[0].space.planes[1];
    REQUIRE(environment && environment->n_stats == 2 && p->n_lines == 1);
    struct xstat s;
    xstat_read(&s, environment, environment->stats[0]);
    CHECK(s.kind == XSTAT_UINT && s.unsigned_number == 1700000000000000000);
    struct xevents walk = xline_events(&p->lines[0]);
    struct xevent v = {0};
    CHECK_INT(p->lines[0].timestamp_ns, 0);
    CHECK(xevent_next(&walk, &v) && v.offset_ps == 1);
    CHECK(xevent_next(&walk, &v) && v.offset_ps == 1500000 && v.duration_ps == 1000000);
    trace_close(&t);
    // A machine that has been running for 100 days: nobody knows when it started.
    static const char days[] = "[" EVENT("X", "a", "8640000000000.5", "") "]";
    REQUIRE(open_text(&t, days, sizeof days - 1, &e));
    CHECK(!xspace_plane(&t.files[0].space, "Task Environment"));
    CHECK_INT(t.files[0].space.planes[0].lines[0].timestamp_ns, 8640000000000000);
    trace_close(&t);
}

static size_t count_stats(struct xstats walk)
{
    struct xstat s;
    size_t n = 0;
    while (xstat_next(&walk, &s))
        n++;
    return n;
}

// What XLA says once of a TPU's operation is in its row, where XProf looks for it; one that says something else of
// itself is another row. Without a category it is no operation.
TEST(trace_chrome_rows_of_operations)
{
#define OP(ts, more) EVENT("X", "op", ts, ",\"args\":{\"long_name\":\"%op\",\"n\":1" more "}")
    static const char json[] = "[" OP("1", ",\"hlo_category\":\"c\",\"flops\":\"7\"") "," OP(
        "2", ",\"hlo_category\":\"c\",\"flops\":"
             "\"7\"") "," OP("3", ",\"hlo_category\":\"c\",\"flops\":\"8\"") "," OP("4", ",\"flops\":\"7\"") "]";
#undef OP
    static const size_t of_rows[] = {2, 2, 2, 0};
    struct trace t;
    struct error e;
    REQUIRE(open_text(&t, json, sizeof json - 1, &e));
    struct xplane *p = &t.files[0].space.planes[0];
    CHECK_INT(p->event_table.n_rows, 3);
    struct xevents walk = xline_events(&p->lines[0]);
    struct xevent v;
    for (size_t i = 0; xevent_next(&walk, &v); i++) {
        const struct xmeta *row = xtable_find(&p->event_table, v.metadata_id);
        REQUIRE(row && i < 4);
        CHECK(slice_is(row->name, "%op") && slice_is(row->display_name, "op"));
        CHECK_INT(count_stats(xmeta_stats(p, row)), of_rows[i]);
        CHECK_INT(count_stats(xevent_stats(p, &v)), i < 3 ? 1 : 2);
    }
    trace_close(&t);
}

// What has no place in a profile is counted.
TEST(trace_chrome_left_out)
{
    static const char json[] = "[" EVENT("X", "a", "1", "") "," EVENT("N", "o", "1", ",\"id\":1") "," EVENT(
        "v", "m", "1", "") ",{\"ph\":\"M\",\"name\":\"trace_config\"}," EVENT("s", "f", "0", ",\"id\":1") "]";
    struct trace t;
    struct error e;
    REQUIRE(open_text(&t, json, sizeof json - 1, &e));
    CHECK_INT(t.files[0].chrome.left_out, 3);
    CHECK_INT(t.files[0].chrome.arrows_left_out, 1);
    CHECK_INT(t.files[0].chrome.events, 1);
    trace_close(&t);
}

TEST(trace_chrome_refused)
{
    static const struct {
        const char *json, *message;
    } cases[] = {
        {"{\"a\":1}", "is JSON, but no trace of Chrome's: it has no traceEvents"},
        {"{\"traceEvents\":{}}", "is no trace: its traceEvents are no list"},
        {"{\"traceEvents\":[]}", "is a trace without events"},
        {"[", "is a trace without events"},
        {"[" EVENT("E", "a", "1", "") "]",
         "holds no event that can be read: at offset 1 (traceEvents) an event ends that has not begun"},
        {"[{\"ph\":\"X\",\"ts\":1",
         "holds no event that can be read: at offset 17 (traceEvents) it ends in the middle"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct trace t;
        struct error e;
        CHECK(!open_text(&t, cases[i].json, strlen(cases[i].json), &e));
        CHECK_INT(e.code, ERR_INPUT);
        CHECK_STR(e.message, cases[i].message);
        trace_close(&t);
    }
    // A plane of 123 bytes also begins with a line break and a bracket.
    CHECK(!chrome_recognise("\n{\x12\x04name", 8) && !chrome_recognise("\n[\x08\x01", 4));
    CHECK(chrome_recognise(" \n{ \"a\":", 8) && chrome_recognise("[ {", 3) && chrome_recognise("[", 1));
    CHECK(!chrome_recognise("", 0) && !chrome_recognise("x", 1) && !chrome_recognise("[1", 2));
}

static void repeat(struct str *s, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        str_add(s, text);
}

// Deep and long inputs: neither the stack nor time grow with them more than the file does.
TEST(trace_chrome_deep_and_long)
{
    struct str s;
    struct trace t;
    struct error e;
    str_init(&s);
    str_add(&s, "[" EVENT("X", "a", "1", "") "," EVENT("X", "b", "2", ",\"args\":{\"deep\":"));
    s.length -= 1; // the event's bracket comes later
    repeat(&s, "[", 4095);
    repeat(&s, "]", 4095);
    str_add(&s, "}}]");
    REQUIRE(open_text(&t, s.text, s.length, &e));
    CHECK(!t.files[0].space.damage.what && t.files[0].chrome.events == 2);
    trace_close(&t);
    str_clear(&s);
    str_add(&s, "[" EVENT("X", "a", "1", "") ",{\"ph\":\"X\",\"args\":");
    size_t at = s.length;
    repeat(&s, "[", 1000000);
    REQUIRE(open_text(&t, s.text, s.length, &e));
    CHECK_STR(t.files[0].space.damage.what, "values are nested deeper than 4096");
    CHECK_INT(t.files[0].space.damage.offset, at);
    trace_close(&t);
    // Many begins, ends of other names, and arrows, all at one time.
    str_clear(&s);
    str_add(&s, "[" EVENT("X", "a", "1", ""));
    repeat(&s, "," EVENT("B", "b", "1", ""), 50000);
    repeat(&s, "," EVENT("E", "c", "1", ""), 50000);
    repeat(&s, "," EVENT("s", "f", "1", ",\"id\":1"), 50000);
    REQUIRE(open_text(&t, s.text, s.length, &e));
    CHECK_INT(t.files[0].space.damage.count, 100000);
    CHECK_INT(t.files[0].chrome.events, 50001);
    trace_close(&t);
    str_release(&s);
}
