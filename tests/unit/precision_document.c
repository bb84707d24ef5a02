// SPDX-License-Identifier: Apache-2.0
#include "precision_document.h"

#include <string.h>

#include "test.h"

static void fill_cases(struct precision *p, const char *name)
{
    static const double reference[4] = {3, -4, 0, 12}, near[4] = {3, -4, 0.5, 12}, broken[4] = {3, NAN, 0, 12},
                        zero[4] = {0};
    struct precision_case *c = precision_case(p, name, "near", "balanced");
    c->label = name;
    c->w = "int8/channel";
    c->acc = name;
    c->code_bytes = 100;
    c->scale_bytes = 20;
    c->clipped = 3;
    precision_measure(p, c, "f64", reference, near, 4);
    precision_measure(p, c, name, reference, reference, 4);
    precision_number(p, c, "ratio", quantity_make(2.5, "1", ORIGIN_DERIVED, "by hand"));
    precision_number(p, c, "printed", quantity_make(16384, "B", ORIGIN_SHEET, name));
    precision_text(p, c, "lowered", "as %s", name);
    c = precision_case(p, name, "broken", NULL);
    precision_measure(p, c, "f64", reference, broken, 4);
    precision_measure(p, c, "zero", zero, near, 4);
    c = precision_case(p, "failed", "failed", NULL);
    precision_fail(p, c, "no such product: %s", name);
}

static void fill_figure(struct precision *p, const char *name)
{
    static const char *const cases[3] = {"near", "broken", NULL};
    struct precision_figure *f = precision_figure(p, "all", name, name);
    static const enum precision_panel_kind kinds[3] = {PANEL_BARS, PANEL_STACKED, PANEL_POINTS};
    for (int i = 0; i < 3; i++) {
        struct precision_panel *panel = precision_panel(p, f, kinds[i], name);
        precision_axis_y(p, panel, name, i == 1 ? "B" : "1", i == 2);
        precision_category(p, panel, "first");
        precision_category(p, panel, name);
        precision_category(p, panel, "third");
        precision_series(p, panel, "max", i == 1 ? "stored/codes" : "measures/f64/max_abs", cases, 3);
        precision_series(p, panel, name, i == 1 ? "stored/scales" : "facts/ratio", cases, 3);
    }
    struct precision_panel *lines = precision_panel(p, f, PANEL_LINES, name);
    precision_axis_x(p, lines, "step", "1", false);
    precision_axis_y(p, lines, "loss", "1", true);
    precision_line(p, lines, name, "trajectory", "step", "loss");
    precision_figure(p, "empty", "a figure without panels", "");
}

bool precision_document_fill(struct precision *p, const struct precision_options *o, const char *name)
{
    struct error err = {0};
    static const float x[2] = {1, 2};
    memset(p, 0, sizeof *p);
    arena_init(&p->arena);
    p->options = o;
    if (!test_check(precision_begin(p, "synthetic", name, &err) == 0, __FILE__, __LINE__, "precision_begin"))
        return false;
    precision_add_input(p, "x", DT_F32, 2, (int64_t[]){1, 2}, x, name);
    fill_cases(p, name);
    precision_check_number(p, "near enough", name, 1, 1.25, 0.25, "a quarter");
    precision_check_text(p, "text", "texts are equal", name, name);
    precision_note(p, "note: %s", name);
    struct precision_table *t = precision_table(p, "trajectory", name);
    precision_column(p, t, "step", "1", ORIGIN_DERIVED, "counted");
    precision_column(p, t, "loss", "1", ORIGIN_DERIVED, name);
    precision_column(p, t, "what", NULL, ORIGIN_DERIVED, NULL);
    for (int i = 0; i < 3; i++) {
        precision_cell_number(p, t, i);
        precision_cell_number(p, t, i == 1 ? (double)NAN : 1.0 / (i + 1));
        precision_cell_text(p, t, "%s", name);
    }
    fill_figure(p, name);
    struct precision_program *program = precision_program(p, name);
    program->products[program->n_products++] = name;
    return test_check(p->error.code == 0, __FILE__, __LINE__, "memory for the document");
}

bool precision_document_text(const struct precision *p, struct str *out)
{
    struct error err = {0};
    struct str result;
    struct jw w;
    str_init(&result);
    jw_init(&w, &result, false);
    int rc = precision_json(p, &w, &err);
    if (!rc)
        rc = jw_finish(&w, &err);
    if (!rc)
        rc = record_envelope(out, "precision", "runs/x", str_text(&result), NULL, &err);
    if (rc)
        test_fail_error(__FILE__, __LINE__, "document", err.where, err.message);
    str_release(&result);
    return rc == 0;
}
