/* model.h - runs a compiled graph, without Python.
 *
 *     char said[256];
 *     model *m;
 *     if (model_create(&m, "weights.bin", 4, said, sizeof said)) { puts(said); exit(1); }
 *     model_value in = {.data = numbers, .rank = 2, .shape = {8, 96}}, out;
 *     if (model_run(m, &in, &out)) puts(model_message(m));
 *     else use(out.data, out.shape);
 *     model_destroy(m);
 *
 * A model is used by one thread at a time; several models may run at once.
 */
#ifndef MODEL_H
#define MODEL_H
#include <stddef.h>
#include <stdint.h>

#define MODEL_RANK 64 /* the most axes of an array */

/* What functions return, and what the program that main.c makes ends with. */
enum {
  MODEL_OK = 0,
  MODEL_FAULT = 1,     /* a kernel found something wrong, such as an index out of range */
  MODEL_BAD_INPUT = 2, /* an input, or its size, that the model does not take */
  MODEL_NO_MEMORY = 3,
  MODEL_BAD_WEIGHTS = 4 /* no file of weights, or not the one of this model */
};

typedef struct model model;

typedef struct model_value { /* an array, its last axis closest in memory */
  void *data;                /* aligned to its elements */
  int64_t rank;
  int64_t shape[MODEL_RANK];
} model_value;

typedef struct model_spec { /* what an input or output is */
  const char *name;
  const char *type;         /* for people: "float32[n, 96]" */
  const char *npy;          /* how .npy files spell its elements: "<f4" */
  int64_t itemsize;
  int64_t rank;
} model_spec;

extern const char *const model_name;
extern const int64_t model_input_count, model_output_count;
extern const model_spec model_input_specs[], model_output_specs[];

/* Reads the weights and makes `threads` threads ready, the caller being one; 0: as many as there are processors.  When it does
 * not return MODEL_OK, `message`, of at least `room` bytes, says why. */
int model_create(model **made, const char *weights, int64_t threads, char *message, size_t room);

/* Runs it on `inputs`, which the caller owns and of which the model changes only buffers, and sets all `outputs`.  Their
 * memory belongs to the model, and keeps its content until the next run; an output that is a buffer is the input itself. */
int model_run(model *m, const model_value *inputs, model_value *outputs);

const char *model_message(const model *m); /* why the newest run did not return MODEL_OK */

void model_destroy(model *m); /* NULL is allowed */
#endif
