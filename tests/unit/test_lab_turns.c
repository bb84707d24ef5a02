// SPDX-License-Identifier: Apache-2.0
// Two sides in turns: in which order their samples come, and what becomes of both when one of them ends.
#include "lab/turns.h"

#include <string.h>
#include <time.h>

#include "test.h"

// What both did, in the order in which it was done: s and S are set-ups, a and A samples, of the first and the second.
struct log {
    char text[128];
    size_t n;
    int awake; // how many are at work
};

struct work {
    struct log *log;
    char set_up, sample;
    const char *stages; // one each: 'x' takes part, '-' does not, '!' fails at its second sample
    size_t rounds;
};

static void add(struct log *l, char what)
{
    const struct timespec moment = {0, 200000};
    l->awake++;
    CHECK_INT(l->awake, 1);
    nanosleep(&moment, NULL); // time for the other to be at work, if it were not asleep
    l->text[l->n++] = what;
    l->awake--;
}

static int run(void *of, struct turn *turn, struct error *err)
{
    const struct work *w = of;
    for (const char *s = w->stages; *s; s++) {
        bool paired;
        add(w->log, w->set_up);
        int rc = turn_meet(turn, *s == '-' ? 0 : w->rounds, *s != '-', &paired, err);
        for (size_t i = 0; i < w->rounds && !rc && *s != '-'; i++) {
            rc = paired ? turn_begin(turn, err) : 0;
            if (!rc && *s == '!' && i == 1)
                return error_set(err, ERR_MEMORY, turn->name, "no more");
            if (rc)
                return rc;
            add(w->log, w->sample);
            if (paired)
                turn_end(turn);
        }
        if (rc)
            return rc;
        if (paired)
            turn_leave(turn);
    }
    return 0;
}

static int both(struct log *l, const char *first, const char *second, uint64_t seed, struct error *err)
{
    struct work works[2] = {{l, 's', 'a', first, 4}, {l, 'S', 'A', second, 4}};
    static const char *const names[] = {"one", "two"};
    memset(l, 0, sizeof *l);
    return turns_both(run, (void *const[]){&works[0], &works[1]}, names, seed, err);
}

// The samples alone, in their order.
static const char *samples_of(const struct log *l, char out[128])
{
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++) {
        if (l->text[i] == 'a' || l->text[i] == 'A')
            out[n++] = l->text[i];
    }
    out[n] = 0;
    return out;
}

// Every round has one sample of each, who is first alternates, and both are set up before the first.
TEST(lab_turns_take_samples_in_rounds)
{
    struct error err = {0};
    struct log l;
    bool seen[2] = {false, false};
    for (uint64_t seed = 0; seed < 8; seed++) {
        CHECK_INT(both(&l, "x", "x", seed, &err), 0);
        bool second = l.text[2] == 'A';
        CHECK_STR(l.text, second ? "sSAaaAAaaA" : "sSaAAaaAAa");
        seen[second] = true;
    }
    CHECK(seen[0] && seen[1]); // the seed says who begins
}

// No set-up lies between two samples of a round: they would not be of one moment.
TEST(lab_turns_keep_rounds_together)
{
    struct error err = {0};
    struct log l;
    char samples[128];
    CHECK_INT(both(&l, "xxx", "xxx", 3, &err), 0);
    CHECK_INT(strlen(samples_of(&l, samples)), 24);
    for (size_t i = 0; i < l.n; i++) {
        if (l.text[i] != 's' && l.text[i] != 'S')
            continue;
        size_t before[2] = {0, 0};
        for (size_t k = 0; k < i; k++) {
            before[0] += l.text[k] == 'a';
            before[1] += l.text[k] == 'A';
        }
        CHECK_INT(before[0], before[1]);
    }
}

TEST(lab_turns_leave_out_what_one_side_does_not_have)
{
    struct error err = {0};
    struct log l;
    char samples[128];
    CHECK_INT(both(&l, "x-x", "xxx", 0, &err), 0);
    samples_of(&l, samples);
    CHECK_INT(strlen(samples), 20);
    CHECK_INT(both(&l, "-x", "xx", 0, &err), 0);
    CHECK(strncmp(samples_of(&l, samples), "AAAA", 4) == 0); // alone
    CHECK_INT(both(&l, "x-", "x-", 0, &err), 0);
    CHECK_INT(strlen(samples_of(&l, samples)), 8);
}

TEST(lab_turns_end_when_one_side_fails)
{
    const char *const cases[][2] = {{"x!x", "xxx"}, {"xxx", "x!x"}, {"!", "!"}};
    static const char *const names[] = {"one", "two"};
    for (size_t i = 0; i < 3; i++) {
        for (uint64_t seed = 0; seed < 4; seed++) {
            struct error err = {0};
            struct log l;
            CHECK_INT(both(&l, cases[i][0], cases[i][1], seed, &err), ERR_MEMORY);
            CHECK_STR(err.message, "no more"); // what went wrong, not that the other had to stop
            if (i < 2)
                CHECK_STR(err.where, names[i]);
        }
    }
    struct error err = {0};
    struct log l;
    CHECK_INT(both(&l, "x", "xx", 0, &err), ERR_DEVICE); // a side that has more to do is not left waiting
    CHECK_STR(err.where, "one");
}

TEST(lab_turns_of_one_by_itself)
{
    struct error err = {0};
    bool paired = true;
    CHECK_INT(turn_meet(NULL, 3, true, &paired, &err), 0);
    CHECK(!paired);
}
