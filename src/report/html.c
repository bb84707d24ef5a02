// SPDX-License-Identifier: Apache-2.0
#include "report/html.h"

#include <string.h>

#include "report/svg.h"

static const char style[] =
    "*{box-sizing:border-box}\n"
    "html{-webkit-text-size-adjust:100%;color-scheme:light dark}\n"
    "body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,"
    "\"Noto Sans\",\"DejaVu Sans\",sans-serif;font-variant-numeric:tabular-nums}\n"
    "main{max-width:1180px;margin:0 auto;padding:28px 24px 60px}\n"
    "svg text{font-family:inherit}\n"
    "h1{font-size:25px;line-height:1.25;margin:0 0 6px;font-weight:680;overflow-wrap:anywhere}\n"
    "h2{font-size:18px;margin:0 0 4px;font-weight:660}\n"
    "h3{font-size:14px;margin:0 0 6px;font-weight:640}\n"
    "p{margin:4px 0 10px;overflow-wrap:anywhere}\n"
    ".kicker{font-size:12px;letter-spacing:.08em;text-transform:uppercase;color:var(--soft);margin:0 0 6px}\n"
    ".about,.dim,.unit{color:var(--soft)}\n"
    ".about{font-size:14px;max-width:78ch}\n"
    ".warn{color:var(--b)}\n"
    "section{margin-top:40px;padding-top:20px;border-top:1px solid var(--grid)}\n"
    ".decision{margin:22px 0 8px;padding:18px 20px 12px;border:1px solid var(--grid);border-left:5px solid var(--a);"
    "border-radius:6px}\n"
    ".decision.no{border-left-color:var(--b)}\n"
    ".decision.none{border-left-color:var(--axis)}\n"
    ".decision h2{font-size:21px;overflow-wrap:anywhere}\n"
    ".decision ul{margin:6px 0 10px;padding-left:20px}\n"
    ".decision li{margin:2px 0;overflow-wrap:anywhere}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px 26px;margin:14px 0 12px}\n"
    ".tile b{display:block;font-size:23px;font-weight:640;line-height:1.2}\n"
    ".tile span{display:block;font-size:13px;color:var(--soft)}\n"
    "code{font:13px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,\"DejaVu Sans Mono\",monospace;"
    "overflow-wrap:anywhere}\n"
    "pre{font:12px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,\"DejaVu Sans Mono\",monospace;overflow-x:auto;"
    "padding:10px 12px;border:1px solid var(--grid);border-radius:4px;white-space:pre-wrap;overflow-wrap:anywhere}\n"
    ".scroll{overflow-x:auto;margin:12px 0 6px}\n"
    "table{border-collapse:collapse;font-size:13.5px;min-width:50%}\n"
    "th{text-align:left;font-weight:600;vertical-align:bottom;border-bottom:1.5px solid var(--axis);"
    "padding:5px 16px 5px 0;line-height:1.3}\n"
    "td{padding:4px 16px 4px 0;border-bottom:1px solid var(--grid);vertical-align:top;overflow-wrap:break-word}\n"
    "ul.why{margin:6px 0 18px;padding-left:20px}ul.why li{margin:10px 0 0}"
    "ul.why p{margin:2px 0 6px;max-width:96ch}\n"
    ".cases{margin-bottom:22px}.cases td:first-child{min-width:24ch}\n"
    "td.long{overflow-wrap:anywhere;min-width:18ch}\n"
    "th.r,td.r{text-align:right}td.r{white-space:nowrap}\n"
    "th:last-child,td:last-child{padding-right:4px}\n"
    ".unit{font-weight:400}\n"
    ".strong{font-weight:680}\n"
    ".good{color:var(--c)}.bad{color:var(--b)}\n"
    "td sup{color:var(--soft);line-height:0}\n"
    ".tag{display:inline-block;font-size:10px;font-weight:600;line-height:14px;padding:0 4px;border-radius:3px;"
    "border:1px solid var(--grid);color:var(--soft);vertical-align:1px;font-style:normal}\n"
    "ol.notes{margin:4px 0 12px;padding-left:22px;font-size:13px;color:var(--soft)}\n"
    "ol.notes li{overflow-wrap:anywhere}\n"
    ".figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(480px,100%),1fr));gap:26px 24px;"
    "margin-top:16px}\n"
    "figure{margin:0;min-width:0}\n"
    "figure.full{grid-column:1/-1;overflow-x:auto}figure.full svg{min-width:700px}\n"
    "figure svg{display:block;width:100%;height:auto}figure.half{max-width:700px}\n"
    ".legend{font-size:12.5px;color:var(--soft);margin:0 0 2px}\n"
    ".key{display:inline-block;width:10px;height:10px;border-radius:50%;margin:0 4px 0 10px}\n"
    ".legend .key:first-child{margin-left:0}\n"
    ".ka{background:var(--a)}.kb{background:var(--b)}.kc{background:var(--c)}\n"
    ".kd{border-radius:1px;transform:rotate(45deg) scale(.8)}\n"
    ".kh{background:none;border:2px solid var(--soft)}.ks{background:var(--soft)}\n"
    "ol.modules{columns:3 220px;margin:6px 0 0;padding-left:22px;font-size:13px}\n"
    "ol.modules li{overflow-wrap:anywhere}\n"
    "svg .weak{opacity:.55}\n"
    "svg .disc{opacity:.75}\n"
    "svg .number{font-size:10px;font-weight:600}\n"
    "footer{margin-top:44px;padding-top:14px;border-top:1px solid var(--grid);font-size:13px;color:var(--soft)}\n"
    "nav{font-size:13px;margin:14px 0 0}\n"
    "nav a{color:var(--a);text-decoration:none;margin-right:16px;display:inline-block}\n"
    "nav a:hover{text-decoration:underline}\n"
    "@media print{.figures{grid-template-columns:1fr 1fr}figure.full svg{min-width:0}.about{break-after:avoid}"
    "body{font-size:11px}main{max-width:none;padding:0}nav{display:none}table{font-size:10px}"
    "section{margin-top:20px}figure,tr,.decision{break-inside:avoid}h2{break-after:avoid}.scroll{overflow:visible}"
    "*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}\n";

void html_text(struct str *out, const char *text)
{
    str_add_html(out, text, strlen(text));
}

void html_begin(struct str *out, const char *title)
{
    str_add(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                 "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                 "'unsafe-inline'\">\n"
                 "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
    html_text(out, title);
    str_add(out, "</title>\n<style>\n");
    str_add(out, svg_style());
    str_add(out, style);
    str_add(out, "</style>\n</head>\n<body>\n<main>\n");
}

void html_end(struct str *out)
{
    str_add(out, "</main>\n</body>\n</html>\n");
}

void html_paragraph(struct str *out, const char *class, const char *text)
{
    str_addf(out, "<p class=\"%s\">", class);
    html_text(out, text);
    str_add(out, "</p>\n");
}

void html_section(struct str *out, const char *id, const char *title, const char *about)
{
    str_addf(out, "<section id=\"%s\">\n<h2>", id);
    html_text(out, title);
    str_add(out, "</h2>\n");
    if (about)
        html_paragraph(out, "about", about);
}

void html_section_end(struct str *out)
{
    str_add(out, "</section>\n");
}

void html_figure(struct str *out, const char *class, const char *title, const char *legend)
{
    str_addf(out, "<figure class=\"%s\">\n<h3>", class);
    html_text(out, title);
    str_addf(out, "</h3>\n<p class=\"legend\">%s</p>\n", legend);
}

void html_figure_end(struct str *out)
{
    str_add(out, "</figure>\n");
}
