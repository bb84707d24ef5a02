// SPDX-License-Identifier: Apache-2.0
#include "chips/pci.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

// A file with one hexadecimal number, "0x1ae0".
static bool read_number(const char *folder, const char *slot, const char *name, unsigned *out)
{
    struct str path, text;
    str_init(&path);
    str_init(&text);
    str_addf(&path, "%s/%s/%s", folder, slot, name);
    bool ok = !path.failed && file_read(&text, str_text(&path), 64, NULL) == 0;
    if (ok) {
        char *end;
        unsigned long v = strtoul(str_text(&text), &end, 16);
        ok = end != str_text(&text) && v <= 0xffff;
        *out = (unsigned)v;
    }
    str_release(&path);
    str_release(&text);
    return ok;
}

size_t chips_pci_scan(const char *folder, struct chips_pci_entry *out, size_t capacity)
{
    size_t n = 0;
    for (size_t i = 0; i < chip_count(); i++) {
        const struct chip *c = chip_at(i);
        size_t k = 0;
        while (k < n && (out[k].vendor != c->pci_vendor || out[k].device != c->pci_device))
            k++;
        if (!c->pci_vendor || k == capacity)
            continue;
        if (k == n)
            out[n++] = (struct chips_pci_entry){.vendor = c->pci_vendor, .device = c->pci_device};
        for (size_t j = 0; j < 3; j++) {
            if (!out[k].chips[j]) {
                out[k].chips[j] = c;
                break;
            }
        }
    }
    DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));) {
        unsigned vendor, device;
        if (e->d_name[0] == '.' || !read_number(folder, e->d_name, "vendor", &vendor) ||
            !read_number(folder, e->d_name, "device", &device))
            continue;
        for (size_t k = 0; k < n; k++)
            out[k].count += out[k].vendor == vendor && out[k].device == device;
    }
    if (d)
        closedir(d);
    size_t kept = 0;
    for (size_t k = 0; k < n; k++) {
        if (out[k].count)
            out[kept++] = out[k];
    }
    return kept;
}
