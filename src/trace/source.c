// SPDX-License-Identifier: Apache-2.0
#include "trace/source.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "trace/ops_view.h"

#define DEEPEST 128 // parts of a path; what is deeper counts for the last of them

// ---- Paths

struct path {
    const struct trace_op *op;
    struct slice whole;
    enum trace_track track;
};

// "model.py:12" of "model.py:12:3".
static struct slice without_column(struct slice line)
{
    size_t n = line.size;
    while (n > 0 && isdigit(line.data[n - 1]))
        n--;
    if (n < 2 || n == line.size || line.data[n - 1] != ':' || !isdigit(line.data[n - 2]))
        return line;
    return (struct slice){line.data, n - 1};
}

bool trace_path_part(struct slice *rest, enum trace_track track, struct slice *part)
{
    int depth = 0;
    size_t n = 0;
    if (!rest->size)
        return false;
    for (; n < rest->size; n++) {
        uint8_t c = rest->data[n];
        depth += (c == '(') - (c == ')' && depth > 0);
        if (track == TRACE_TRACK_SOURCE ? c == '\n' : c == '/' && depth == 0)
            break;
    }
    *part = (struct slice){rest->data, n};
    size_t used = n < rest->size ? n + 1 : n;
    *rest = (struct slice){rest->data + used, rest->size - used};
    if (track == TRACE_TRACK_SOURCE)
        *part = without_column(*part);
    else if (!rest->size && part->size && part->data[part->size - 1] == ':')
        part->size--;
    return true;
}

// By their parts, so that paths which differ in what parts leave out stand together.
static int by_path(const void *a, const void *b)
{
    const struct path *p = a, *q = b;
    struct slice x = p->whole, y = q->whole, left, right;
    for (;;) {
        bool more = trace_path_part(&x, p->track, &left), other = trace_path_part(&y, q->track, &right);
        if (!more || !other)
            return (int)more - (int)other;
        int c = slice_compare(left, right);
        if (c)
            return c;
    }
}

static struct slice path_of(const struct trace_op *op, enum trace_track track)
{
    if (track == TRACE_TRACK_SCOPE)
        return op->scope;
    return op->stack.size ? op->stack : op->source;
}

// ---- The tree

struct node {
    struct trace_source_node shown;
    size_t parent, last_child; // 1 + place; 0: none
};

struct tree {
    struct node *nodes;
    size_t n, cap, last_root;
    struct arena *arena;
    struct error *err;
};

// Paths come sorted, so a part that is there already is the last child. Two columns of one line are one part.
static int descend(struct tree *t, size_t *at, struct slice part, size_t depth)
{
    size_t last = *at ? t->nodes[*at - 1].last_child : t->last_root;
    if (last && slice_compare(t->nodes[last - 1].shown.name, part) == 0) {
        *at = last;
        return 0;
    }
    struct node *more = arena_grow(t->arena, t->nodes, &t->cap, t->n + 1, sizeof *more, t->err);
    if (!more)
        return ERR_MEMORY;
    t->nodes = more;
    more[t->n++] = (struct node){.shown = {.name = part, .depth = depth}, .parent = *at};
    if (*at)
        more[*at - 1].last_child = t->n;
    else
        t->last_root = t->n;
    *at = t->n;
    return 0;
}

static int add_path(struct tree *t, const struct path *p, enum trace_track track)
{
    struct slice rest = p->whole, part;
    size_t at = 0, depth = 0;
    int rc = 0;
    while (!rc && depth < DEEPEST && trace_path_part(&rest, track, &part)) {
        bool again = track == TRACE_TRACK_SOURCE && at && slice_compare(t->nodes[at - 1].shown.name, part) == 0;
        if (part.size && !again)
            rc = descend(t, &at, part, depth++);
    }
    if (!rc && !at)
        rc = descend(t, &at, (struct slice){0}, 0);
    if (rc)
        return rc;
    t->nodes[at - 1].shown.self_ps = add_saturated(t->nodes[at - 1].shown.self_ps, p->op->self_ps);
    for (; at; at = t->nodes[at - 1].parent) {
        t->nodes[at - 1].shown.total_ps = add_saturated(t->nodes[at - 1].shown.total_ps, p->op->self_ps);
        t->nodes[at - 1].shown.executions += p->op->executions;
    }
    return 0;
}

struct sibling {
    size_t parent, node;
    const struct node *of;
};

static int by_total(const void *a, const void *b)
{
    const struct sibling *x = a, *y = b;
    if (x->parent != y->parent)
        return x->parent < y->parent ? -1 : 1;
    if (x->of->shown.total_ps != y->of->shown.total_ps)
        return x->of->shown.total_ps < y->of->shown.total_ps ? 1 : -1;
    int c = slice_compare(x->of->shown.name, y->of->shown.name);
    return c ? c : (x->node > y->node) - (x->node < y->node);
}

// Depth first: a node's siblings follow when everything below it has been written.
static int order(const struct tree *t, struct trace_source *out, struct error *err)
{
    struct sibling *all = arena_new(t->arena, struct sibling, t->n, err);
    size_t *first = arena_new(t->arena, size_t, t->n + 1, err), *place = arena_new(t->arena, size_t, t->n + 1, err);
    size_t *todo = arena_new(t->arena, size_t, t->n + 1, err), n_todo = 0;
    out->nodes = arena_new(t->arena, struct trace_source_node, t->n, err);
    if (!all || !first || !place || !todo || !out->nodes)
        return ERR_MEMORY;
    for (size_t i = 0; i < t->n; i++)
        all[i] = (struct sibling){t->nodes[i].parent, i + 1, &t->nodes[i]};
    if (t->n)
        qsort(all, t->n, sizeof *all, by_total);
    for (size_t i = t->n; i-- > 0;)
        first[all[i].parent] = i + 1;
    if (t->n)
        todo[n_todo++] = first[0];
    while (n_todo) {
        size_t i = todo[--n_todo] - 1;
        const struct sibling *s = &all[i];
        out->nodes[out->n_nodes] = s->of->shown;
        out->nodes[out->n_nodes].parent = s->parent ? place[s->parent] : 0;
        place[s->node] = ++out->n_nodes;
        if (i + 1 < t->n && all[i + 1].parent == s->parent)
            todo[n_todo++] = i + 2;
        if (first[s->node])
            todo[n_todo++] = first[s->node];
    }
    return 0;
}

int trace_source(const struct trace_ops *o, enum trace_track track, struct arena *arena, struct trace_source *out,
                 struct error *err)
{
    struct path *paths = arena_new(arena, struct path, o->n_rows, err);
    struct tree t = {.arena = arena, .err = err};
    *out = (struct trace_source){0};
    if (!paths)
        return ERR_MEMORY;
    for (size_t i = 0; i < o->n_rows; i++)
        paths[i] = (struct path){&o->rows[i], path_of(&o->rows[i], track), track};
    if (o->n_rows)
        qsort(paths, o->n_rows, sizeof *paths, by_path);
    int rc = 0;
    for (size_t i = 0; i < o->n_rows && !rc; i++)
        rc = add_path(&t, &paths[i], track);
    return rc ? rc : order(&t, out, err);
}

// ---- JSON

static void nodes_json(struct jw *w, const char *key, const struct trace_source *s)
{
    jw_key(w, key);
    jw_array(w);
    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct trace_source_node *n = &s->nodes[i];
        jw_object(w);
        jw_key(w, "name");
        if (n->name.size)
            jw_string_n(w, (const char *)n->name.data, n->name.size);
        else
            jw_null(w);
        jw_kv_uint(w, "depth", n->depth);
        jw_key(w, "parent");
        if (n->parent)
            jw_uint(w, n->parent - 1);
        else
            jw_null(w);
        jw_kv_int(w, "self_ps", n->self_ps);
        jw_kv_int(w, "total_ps", n->total_ps);
        jw_kv_uint(w, "executions", n->executions);
        jw_object_end(w);
    }
    jw_array_end(w);
}

int trace_source_json(const struct trace *t, const struct trace_ops *o, struct jw *w, struct error *err)
{
    struct arena arena;
    struct trace_source source, scope;
    arena_init(&arena);
    int rc = trace_source(o, TRACE_TRACK_SOURCE, &arena, &source, err);
    if (!rc)
        rc = trace_source(o, TRACE_TRACK_SCOPE, &arena, &scope, err);
    if (!rc) {
        jw_object(w);
        jw_kv_int(w, "self_ps", o->self_ps);
        nodes_json(w, "source", &source);
        nodes_json(w, "scope", &scope);
        trace_files_json(t, w);
        jw_object_end(w);
    }
    arena_release(&arena);
    return rc;
}
