// What kernels write down while they run; maxlab/engine/kernel_log.py reads it.
//
// A log is {records claimed, records it has room for, records}; a record is {note, item, thread, six values}. The note
// says what the values are. What finds no room is counted and lost. The address of a step's log is the word in front of
// its sizes, d[-1]; 0 where nobody reads it.

// @section log needs abi
static __attribute__((cold, noinline, unused)) void mx_log(i64 *log, i64 note, i64 item, i64 thread, i64 a, i64 b,
                                                           i64 c, i64 e, i64 f, i64 g) {
  if (!log) return;
  const i64 place = __atomic_fetch_add(log, 1, __ATOMIC_RELAXED);
  if (place >= log[1]) return;
  i64 *const record = log + 2 + place * 9;
  record[0] = note, record[1] = item, record[2] = thread;
  record[3] = a, record[4] = b, record[5] = c, record[6] = e, record[7] = f, record[8] = g;
}
// @end
