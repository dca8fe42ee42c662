/* What the clients that try all flags have in common: the types, their data, and the reference to compare with. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern uint64_t semcache_test_naive_calls(void) __attribute__((weak));

typedef void fn();
enum { LD = 7, SZ = LD * LD };

/* An integer with junk behind it: reading 64 bits of a 32-bit one gives nonsense. */
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
