/* objects.c - what opaque handles of users' kernels point to, and who lets go of it when.
 *
 * An object counts its references.  The run that makes one holds the first, to its end: all that it makes is in a list,
 * newest first, which is let go of in whatever way the run ends.  Handles that Python has hold one each, and finalizers
 * run on any thread, so the count is changed by atomic operations.
 */
#include "mx_abi.h"

#include <stdlib.h>

static __thread mx_object **collecting; /* each thread that executes has a run of its own */

void mx_collect(mx_object **made) { collecting = made; }

mx_object **mx_collected(void) { return collecting; }

void mx_retain(mx_object *o) { __atomic_add_fetch(&o->refs, 1, __ATOMIC_RELAXED); }

void mx_release(mx_object *o) {
  if (__atomic_sub_fetch(&o->refs, 1, __ATOMIC_ACQ_REL)) return;
  o->drop(o->self);
  free(o);
}

void mx_release_all(mx_object **made) {
  mx_object *o = *made;
  *made = NULL;
  while (o) {
    mx_object *next = o->next; /* `o` may be gone behind the call, or be another thread's */
    mx_release(o);
    o = next;
  }
}
