/* main.c - runs an exported model on files.
 *
 *     ./model [--weights FILE] [--threads N] INPUT... OUTPUT...
 *
 * An input is a .npy file of the right dtype in C order, or, with a shape behind a colon, a file of plain little-endian numbers:
 * `x.bin:8x96`; `x.bin:` is a single number.  An output whose name ends in .npy becomes such a file, any other one plain
 * numbers.  The program ends with one of the numbers of model.h; what was wrong is said on the standard error.
 */
#define _GNU_SOURCE
#include "model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MOST_HEADER (1 << 20)

static int refuse(const char *file, const char *what) {
  fprintf(stderr, "%s: %s\n", file, what);
  return MODEL_BAD_INPUT;
}

static int ends_in(const char *text, const char *end) {
  size_t n = strlen(text), k = strlen(end);
  return n >= k && !strcmp(text + n - k, end);
}

/* ---- reading -------------------------------------------------------------------------------------------------------- */

/* The bytes of an array of this shape; -1 where they cannot be counted. */
static int64_t bytes_of(const model_spec *spec, const model_value *x) {
  int64_t made = spec->itemsize;
  for (int64_t a = 0; a < x->rank; a++)
    if (x->shape[a] < 0 || __builtin_mul_overflow(made, x->shape[a], &made)) return -1;
  return made;
}

/* A size at *at, which is moved behind it; -1: there is none. */
static int64_t read_size(const char **at) {
  int64_t made = 0;
  if (**at < '0' || **at > '9') return -1;
  for (; **at >= '0' && **at <= '9'; ++*at)
    if (__builtin_mul_overflow(made, 10, &made) || __builtin_add_overflow(made, **at - '0', &made)) return -1;
  return made;
}

static const char *skip(const char *at) {
  while (*at == ' ' || *at == '\n' || *at == '\t') at++;
  return at;
}

/* The value of a key in the header of a .npy file, a Python dictionary; NULL without it. */
static const char *value_of(const char *header, const char *key) {
  const char *at = strstr(header, key);
  if (!at) return NULL;
  at = skip(at + strlen(key));
  return *at == ':' ? skip(at + 1) : NULL;
}

static int read_header(const char *name, const char *header, const model_spec *spec, model_value *x) {
  const char *type = value_of(header, "'descr'"), *order = value_of(header, "'fortran_order'");
  const char *shape = value_of(header, "'shape'");
  if (!type || !order || !shape || *type != '\'' || *shape != '(') return refuse(name, "no header of a .npy file");
  const char *end = strchr(type + 1, '\'');
  const size_t length = end ? (size_t)(end - type - 1) : 0;
  const char *wanted = spec->npy;
  /* bytes have no order, and NumPy spells elements that it does not know as bytes */
  const int fits = length == strlen(wanted) &&
                   (!memcmp(type + 1, wanted, length) || (strchr("<|", type[1]) && !memcmp(type + 2, wanted + 1, length - 1)));
  if (!fits) {
    fprintf(stderr, "%s: its elements are %.*s, expected %s (%s is %s)\n", name, (int)(length > 64 ? 64 : length), type + 1,
            wanted, spec->name, spec->type);
    return MODEL_BAD_INPUT;
  }
  x->rank = 0;
  for (shape = skip(shape + 1); *shape != ')'; shape = skip(shape)) {
    const int64_t size = read_size(&shape);
    if (size < 0 || x->rank == MODEL_RANK) return refuse(name, "its header has no shape");
    x->shape[x->rank++] = size;
    shape = skip(shape);
    if (*shape == ',') shape++;
    else if (*shape != ')') return refuse(name, "its header has no shape");
  }
  if (strncmp(order, "False", 5) && x->rank > 1)
    return refuse(name, "its last axis is not closest in memory: save numpy.ascontiguousarray(array)");
  return MODEL_OK;
}

static int read_npy(const char *name, FILE *file, int64_t size, const model_spec *spec, model_value *x, int64_t *begin) {
  unsigned char head[12];
  if (fread(head, 1, 10, file) != 10 || memcmp(head, "\x93NUMPY", 6)) return refuse(name, "no .npy file");
  int64_t length = head[8] | head[9] << 8, at = 10;
  if (head[6] < 1 || head[6] > 3) return refuse(name, "a .npy file of an unknown version");
  if (head[6] > 1) {
    if (fread(head + 10, 1, 2, file) != 2) return refuse(name, "no .npy file");
    length |= (int64_t)head[10] << 16 | (int64_t)head[11] << 24;
    at = 12;
  }
  if (length > MOST_HEADER || at + length > size) return refuse(name, "its header is longer than the file");
  char *header = calloc(1, (size_t)length + 1);
  if (!header) return MODEL_NO_MEMORY;
  int code = fread(header, 1, (size_t)length, file) == (size_t)length ? MODEL_OK : refuse(name, "no .npy file");
  if (!code) code = read_header(name, header, spec, x);
  free(header);
  *begin = at + length;
  return code;
}

/* The shape behind the last colon of a name, which is cut there. */
static int read_shape(char *name, model_value *x) {
  char *colon = strrchr(name, ':');
  if (!colon) return refuse(name, "neither a .npy file nor a file with a shape behind it, such as x.bin:8x96");
  x->rank = 0;
  const char *at = colon + 1;
  while (*at) {
    const int64_t size = read_size(&at);
    if (size < 0 || x->rank == MODEL_RANK || (*at && (*at != 'x' || !at[1])))
      return refuse(name, "what stands behind the colon is no shape, such as 8x96");
    x->shape[x->rank++] = size;
    at += *at == 'x';
  }
  *colon = 0;
  return MODEL_OK;
}

static int read_value(char *name, const model_spec *spec, model_value *x) {
  const int npy = ends_in(name, ".npy");
  int code = npy ? MODEL_OK : read_shape(name, x);
  if (code) return code;
  struct stat is;
  if (stat(name, &is)) return refuse(name, strerror(errno));
  if (!S_ISREG(is.st_mode)) return refuse(name, "no regular file");
  FILE *file = fopen(name, "rb");
  if (!file) return refuse(name, strerror(errno));
  int64_t begin = 0, bytes;
  if (npy) code = read_npy(name, file, is.st_size, spec, x, &begin);
  if (!code && x->rank != spec->rank) {
    fprintf(stderr, "%s: it has %lld axes, expected %s (%s)\n", name, (long long)x->rank, spec->type, spec->name);
    code = MODEL_BAD_INPUT;
  }
  if (!code && ((bytes = bytes_of(spec, x)) < 0 || bytes != is.st_size - begin)) {
    fprintf(stderr, "%s: it has %lld bytes of numbers, and its shape wants %lld\n", name, (long long)(is.st_size - begin),
            (long long)bytes_of(spec, x));
    code = MODEL_BAD_INPUT;
  }
  if (!code) {
    void *memory = NULL;
    if (posix_memalign(&memory, 64, (size_t)(bytes ? bytes : 1))) code = MODEL_NO_MEMORY;
    else if (fread(memory, 1, (size_t)bytes, file) != (size_t)bytes) code = refuse(name, "it cannot be read");
    x->data = memory;
  }
  fclose(file);
  if (code == MODEL_NO_MEMORY) fprintf(stderr, "%s: there is no memory for it\n", name);
  return code;
}

/* ---- writing -------------------------------------------------------------------------------------------------------- */

static int write_value(const char *name, const model_spec *spec, const model_value *y) {
  FILE *file = fopen(name, "wb");
  if (!file) return refuse(name, strerror(errno));
  if (ends_in(name, ".npy")) {
    char header[64 + MODEL_RANK * 24];
    int n = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (", spec->npy);
    for (int64_t a = 0; a < y->rank; a++)
      n += snprintf(header + n, sizeof header - (size_t)n, "%lld,%s", (long long)y->shape[a], a + 1 < y->rank ? " " : "");
    n += snprintf(header + n, sizeof header - (size_t)n, "), }");
    const int length = (10 + n + 1 + 63) / 64 * 64 - 10; /* the numbers begin at a multiple of 64 bytes */
    fprintf(file, "\x93NUMPY%c%c%c%c%s%*s\n", 1, 0, length & 255, length >> 8, header, length - n - 1, "");
  }
  const size_t bytes = (size_t)bytes_of(spec, y);
  const int whole = fwrite(y->data, 1, bytes, file) == bytes;
  if (fclose(file) || !whole) return refuse(name, "it cannot be written");
  return MODEL_OK;
}

/* ---- the program ---------------------------------------------------------------------------------------------------- */

static int usage(const char *program) {
  fprintf(stderr, "usage: %s [--weights FILE] [--threads N]", program);
  for (int64_t i = 0; i < model_input_count; i++) fprintf(stderr, " INPUT%lld", (long long)i);
  for (int64_t i = 0; i < model_output_count; i++) fprintf(stderr, " OUTPUT%lld", (long long)i);
  fprintf(stderr, "\n%s\n", model_name);
  for (int64_t i = 0; i < model_input_count; i++)
    fprintf(stderr, "  input %lld, %s: %s\n", (long long)i, model_input_specs[i].name, model_input_specs[i].type);
  for (int64_t i = 0; i < model_output_count; i++)
    fprintf(stderr, "  output %lld: %s\n", (long long)i, model_output_specs[i].type);
  fprintf(stderr, "Inputs are .npy files, or plain numbers with a shape: x.bin:8x96\n");
  return MODEL_BAD_INPUT;
}

/* weights.bin beside the program */
static char *usual_weights(const char *program) {
  const char *slash = strrchr(program, '/');
  const size_t folder = slash ? (size_t)(slash - program) + 1 : 0;
  char *made = calloc(1, folder + sizeof "weights.bin");
  if (made) memcpy(made, program, folder), strcpy(made + folder, "weights.bin");
  return made;
}

int main(int argc, char **argv) {
  char *weights = usual_weights(argv[0]);
  long threads = 0;
  int at = 1, code = MODEL_OK;
  if (!weights) return MODEL_NO_MEMORY;
  for (; at + 1 < argc && !strncmp(argv[at], "--", 2); at += 2) {
    char *end = argv[at + 1];
    if (!strcmp(argv[at], "--weights")) {
      free(weights);
      weights = strdup(argv[at + 1]);
      if (!weights) return MODEL_NO_MEMORY;
    } else if (!strcmp(argv[at], "--threads") && (threads = strtol(argv[at + 1], &end, 10)) > 0 && !*end && threads <= 1024)
      continue;
    else break;
  }
  const int64_t count = model_input_count + model_output_count;
  if (argc - at != count) {
    free(weights);
    return usage(argv[0]);
  }
  model_value *values = calloc((size_t)count + 1, sizeof *values), *outputs = values + model_input_count;
  char message[512];
  model *m = NULL;
  if (!values) code = MODEL_NO_MEMORY;
  if (!code) code = model_create(&m, weights, threads, message, sizeof message);
  if (code) fprintf(stderr, "%s\n", values ? message : "there is no memory");
  for (int64_t i = 0; i < model_input_count && !code; i++) code = read_value(argv[at + i], &model_input_specs[i], &values[i]);
  if (!code) {
    code = model_run(m, values, outputs);
    if (code) fprintf(stderr, "%s: %s\n", model_name, model_message(m));
  }
  for (int64_t i = 0; i < model_output_count && !code; i++)
    code = write_value(argv[at + model_input_count + i], &model_output_specs[i], &outputs[i]);
  model_destroy(m);
  for (int64_t i = 0; i < model_input_count && values; i++) free(values[i].data);
  free(values);
  free(weights);
  return code;
}
