// SPDX-License-Identifier: Apache-2.0
// Folders by descriptor: what a record needs of the file system.
#ifndef RECORD_TREE_H
#define RECORD_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

// Makes the folder `path` and those above it where they are missing, and syncs what it made. `path` is a copy of the
// caller's that may be written to (it is whole again afterwards).
int tree_make_folders(char *path, struct error *err);
// 0, or ERR_INTERNAL when `name` is not a plain relative path: absolute, empty, over 255 bytes, a part that is empty,
// "." or "..", a control character.
int tree_check_name(const char *name, struct error *err);
// Opens the folder in which the last part of `name` lies, making folders below `fd`; links are not followed. *leaf
// points at the last part, in `name`. -1 with `err` set.
int tree_open_parent(int fd, const char *name, const char **leaf, struct error *err);
// Creates a file that must not exist and writes it whole; what could not be written whole is removed. `where` is for
// the message.
int tree_write_new(int parent_fd, const char *leaf, const void *bytes, size_t n, const char *where, struct error *err);
// Syncs all regular files and folders under and including `fd`.
int tree_sync(int fd, const char *where, struct error *err);
// Removes everything under `fd` as far as possible; links are removed, not followed.
void tree_empty(int fd);

// A folder of our own for what another program writes down, with a name that nobody else knows, readable by us alone.
struct tree_temporary {
    char path[512];
    int fd;
};
// Makes it where TMPDIR says, else in /tmp, as "assay-WHAT-XXXXXX". ERR_USAGE, ERR_IO.
int tree_temporary_new(struct tree_temporary *t, const char *what, struct error *err);
// Removes it with all that is in it; nothing where none was made.
void tree_temporary_release(struct tree_temporary *t);

// fsync of a folder; where folders cannot be synced, that is no error.
bool tree_sync_folder(int fd);

// Renames within a folder. 0, or -1 with errno, EEXIST when there is something called `to`. By renameat2 with
// RENAME_NOREPLACE; where the file system or the kernel lacks that, by looking and then renaming. rename(2) replaces
// nothing but an empty folder when it moves a folder, so all that can be lost between look and rename is an empty
// folder that somebody has just made.
int tree_rename_new(int folder_fd, const char *from, const char *to);

#endif
