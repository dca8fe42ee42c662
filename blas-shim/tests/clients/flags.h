/* Common to the clients that try all flags: the element types, the data, and the reference to compare with. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef DOOR
/* The library has its runtime, whose devices refuse some kernels: who computed which call is not known. */
static uint64_t semcache_test_builtin_calls(void) { return 0; }
enum { COUNTED = 0 };
#else
extern uint64_t semcache_test_builtin_calls(void) __attribute__((weak));
enum { COUNTED = 1 };
#endif

typedef void fn();
enum { LD = 7, SZ = LD * LD };

/* An integer followed by other bits: reading 64 bits of a 32-bit integer gives another number. */
typedef union { INT v; int half[4]; } I;
static I mk(long v) { I i = {.half = {-1, -1, -1, -1}}; i.v = (INT)v; return i; }

static void *host;
static int failures, calls;
static uint64_t before;
static char what[200];

static fn *ref(const char *begin, char letter, const char *name, const char *end) {
  char buf[64];
  snprintf(buf, sizeof buf, "%s%c%s%s", begin, letter, name, end);
  void *p = dlsym(host, buf);
  if (!p) { printf("no reference %s\n", buf); exit(3); }
  return p;
}

/* The types: s d c z */
typedef struct { char letter; int wide, complex; } Type;
static const Type TYPES[4] = {{'s', 0, 0}, {'d', 1, 0}, {'c', 0, 1}, {'z', 1, 1}};
static const Type *t;

static double mem_a[2 * SZ], mem_b[2 * SZ], mem_c[2 * SZ], mem_d[2 * SZ], mem_al[2], mem_be[2];
static void put(void *x, int i, double re, double im) {
  if (t->complex) {
    if (t->wide) { ((double *)x)[2 * i] = re; ((double *)x)[2 * i + 1] = im; }
    else { ((float *)x)[2 * i] = re; ((float *)x)[2 * i + 1] = im; }
  } else if (t->wide) ((double *)x)[i] = re;
  else ((float *)x)[i] = re;
}
static double get(const void *x, int i) { return t->wide ? ((double *)x)[i] : ((float *)x)[i]; }
static void fill(void *x, int seed, int range) {
  for (int i = 0; i < SZ; i++) put(x, i, (i * 7 + seed) % (2 * range + 1) - range, (i * 5 + seed) % 5 - 2);
}
static void reset(int solves) {
  fill(mem_a, 1, solves ? 2 : 5); fill(mem_b, 2, 5); fill(mem_c, 3, 5);
  /* Divisions by these numbers are exact. */
  if (solves) for (int i = 0; i < LD; i++) put(mem_a, i * (LD + 1), i % 3 == 1 ? 0 : i % 2 ? -2 : 1, i % 3 == 1 ? 2 : 0);
  if (solves && !t->complex) put(mem_a, LD + 1, 2, 0), put(mem_a, 4 * (LD + 1), -1, 0);
  memcpy(mem_d, mem_c, sizeof mem_c);
  put(mem_al, 0, 2, 1); put(mem_be, 0, 3, -1);
  before = semcache_test_builtin_calls();
}
static void check(int expected) {
  calls++;
  int ran = semcache_test_builtin_calls() - before;
  if (COUNTED && ran != expected) { printf("%s: ran %d times, not %d\n", what, ran, expected); failures++; }
  for (int i = 0; i < SZ * (1 + t->complex); i++)
    if (get(mem_c, i) != get(mem_d, i)) {
      printf("WRONG %s: element %d is %g, not %g\n", what, i, get(mem_c, i), get(mem_d, i));
      failures++;
      return;
    }
}
