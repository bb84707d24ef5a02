// SPDX-License-Identifier: Apache-2.0
// Accelerators on the PCI bus, named without a plugin.
#ifndef CHIPS_PCI_H
#define CHIPS_PCI_H

#include "chips/chips.h"

// A kind of chip that is there. v2 and v3 share their number: `chips` then has both.
struct chips_pci_entry {
    unsigned vendor, device;
    int count;
    const struct chip *chips[4]; // ended by NULL
};

// Counts the chips of the table in `folder` (/sys/bus/pci/devices; another one replays a recorded machine). At most
// `capacity` kinds, in the order of the table; returns how many. What cannot be read is not there.
size_t chips_pci_scan(const char *folder, struct chips_pci_entry *out, size_t capacity);

#endif
