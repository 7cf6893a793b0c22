// fake.h - what the stand-ins for the vendors' libraries share: the text file that says what they tell.
//
// FAKE_GPUS names the file. It is read anew at every call, so that a test changes a GPU while something watches it. A line
// is a head and `key=value` fields. A value "300+5" is a number that grows by 5 at every reading of it, and "!3" makes the
// call that asks for it fail with code 3. FAKE_GPUS_LOG names a file that takes a line for each start and stop of a library.

#ifndef FAKE_H
#define FAKE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

typedef unsigned long long u64;

static void fake_note(const char *what) {
  const char *path = getenv("FAKE_GPUS_LOG");
  FILE *log = path ? fopen(path, "a") : NULL;
  if (!log) return;
  fprintf(log, "%s %d\n", what, (int)getpid());
  fclose(log);
}

// What follows `head` on its line, in `rest`; 0 when there is no such line.
static int fake_line(const char *head, char *rest, size_t size) {
  const char *path = getenv("FAKE_GPUS");
  FILE *file = path ? fopen(path, "r") : NULL;
  if (!file) return 0;
  char line[1024];
  size_t length = strlen(head);
  int found = 0;
  while (!found && fgets(line, sizeof line, file)) {
    if (strncmp(line, head, length) || !strchr(" \n", line[length])) continue;
    snprintf(rest, size, "%s", line + length);
    found = 1;
  }
  fclose(file);
  return found;
}

// The field `name` of the line `head` in *value; `missing` when it is not there, `unknown` when not even the line is.
static int fake_field(const char *head, const char *name, int missing, int unknown, u64 reads, u64 *value) {
  char rest[1024], key[64];
  if (!fake_line(head, rest, sizeof rest)) return unknown;
  snprintf(key, sizeof key, " %s=", name);
  char *at = strstr(rest, key);
  if (!at) return missing;
  at += strlen(key);
  if (*at == '!') return atoi(at + 1);
  *value = strtoull(at, &at, 10);
  if (*at == '+') *value += reads * strtoull(at + 1, NULL, 10);
  return 0;
}

#endif
