// SPDX-License-Identifier: Apache-2.0
// What the name of a directory says of the record in it.
#ifndef RECORD_NAME_H
#define RECORD_NAME_H

enum name_kind { NAME_RECORD, NAME_PARTIAL, NAME_FAILED };

// `leaf` is the last part of a path: "x.partial-12" and "x.failed-12-2" are not records (any more).
enum name_kind name_kind(const char *leaf);

#endif
