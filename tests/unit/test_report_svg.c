// SPDX-License-Identifier: Apache-2.0
#include "report/svg.h"
#include "test.h"

TEST(report_svg_axis_linear)
{
    struct axis a = axis_linear(0, 90.9, 100, 300);
    CHECK_NEAR(a.low, 0, 0);
    CHECK_NEAR(a.high, 100, 1e-9); // rounding of the step's multiples
    CHECK_NEAR(axis_at(&a, 50), 200, 1e-9);
    CHECK_NEAR(axis_at(&a, -5), 100, 0); // clamped
    CHECK_NEAR(axis_at(&a, 1e9), 300, 0);
    CHECK(isnan(axis_at(&a, NAN)));
    double ticks[16];
    CHECK_INT(axis_ticks(&a, ticks, NULL, 16), 6);
    CHECK_NEAR(ticks[1], 20, 1e-9);
    CHECK_INT(axis_ticks(&a, ticks, NULL, 3), 3);
    CHECK(!signbit(ticks[0]));
}

TEST(report_svg_axis_log)
{
    struct axis a = axis_log(4.1e-7, 0.088, 0, 60);
    CHECK_NEAR(a.low, 1e-7, 1e-16);
    CHECK_NEAR(a.high, 0.1, 1e-10);
    CHECK_NEAR(axis_at(&a, 1e-4), 30, 1e-6); // half way in decades
    CHECK_NEAR(axis_at(&a, 0), 0, 0);        // no logarithm: the lower end
    double ticks[16];
    bool minor[16];
    CHECK_INT(axis_ticks(&a, ticks, minor, 16), 7);
    for (int i = 0; i < 7; i++)
        CHECK(!minor[i]);
    CHECK_NEAR(axis_log(1, 1, 0, 1).high, 10, 1e-12); // a single value still has a decade
}

TEST(report_svg_degenerate_ranges_stay_finite)
{
    const double bad[][2] = {{NAN, 1},          {0, INFINITY},  {5, 5},           {3, -3},          {0, 0},
                             {-1e-320, 1e-320}, {1e300, 1e308}, {1e16, 1e16 + 2}, {1e-320, 1e-310}, {1e-300, 1e300}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        for (int log = 0; log < 2; log++) {
            struct axis a = (log ? axis_log : axis_linear)(bad[i][0], bad[i][1], 10, 20);
            double ticks[64];
            bool minor[64];
            size_t n = axis_ticks(&a, ticks, minor, 64);
            CHECK(n <= 64);
            for (size_t k = 0; k < n; k++) {
                double at = axis_at(&a, ticks[k]);
                CHECK(isnan(at) || (at >= 10 && at <= 20));
            }
        }
    }
}

TEST(report_svg_escapes_and_refuses_what_cannot_be_drawn)
{
    struct str out;
    struct svg s;
    str_init(&out);
    svg_begin(&s, &out, 10, 10, "<t>", "a & b");
    svg_text(&s, 1, 2.504, SVG_END, "label", "</text><script>\x1b");
    svg_line(&s, NAN, 0, 1, 1, "axis");
    svg_rect(&s, 0, 0, INFINITY, 1, "fa");
    svg_mark(&s, SVG_CIRCLE, 1e9, 0, 1, "fa", NULL);
    svg_mark(&s, SVG_SQUARE, 5, 5, 2, "fa", "\"tip\"");
    svg_end(&s);
    CHECK_INT(s.broken, 3);
    CHECK(strstr(str_text(&out), "<title>&lt;t&gt;</title><desc>a &amp; b</desc>") != NULL);
    CHECK(strstr(str_text(&out), "x=\"1\" y=\"2.5\">&lt;/text&gt;&lt;script&gt;\xef\xbf\xbd</text>") != NULL);
    CHECK(strstr(str_text(&out), "<title>&quot;tip&quot;</title></polygon>") != NULL);
    CHECK(strstr(str_text(&out), "nan") == NULL && strstr(str_text(&out), "<line") == NULL);
    str_clear(&out);
    svg_fit(&out, "a long name of a module", 60);
    CHECK_STR(str_text(&out), "a long n\xe2\x80\xa6");
    str_release(&out);
}
