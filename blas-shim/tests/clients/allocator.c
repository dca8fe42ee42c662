/* A program with an allocator of its own: no function of the malloc family may reach glibc's, and each block must be
 * freed by the allocator that served it. -DALLOCATOR makes the allocator's library. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef ALLOCATOR
static char heap[64 << 20] __attribute__((aligned(4096)));
static size_t used;
int theirs(void *p) { return (char *)p >= heap && (char *)p < heap + sizeof heap; }
int strangers;
void *memalign(size_t a, size_t n) {
  if (a < 16) a = 16;
  size_t at = __atomic_add_fetch(&used, n + a + 32, __ATOMIC_RELAXED) - n - a;
  at = (at + a - 1) & ~(a - 1);
  if (at + n > sizeof heap) return 0;
  ((size_t *)(heap + at))[-1] = n;
  return heap + at;
}
void *malloc(size_t n) { return memalign(16, n); }
void *calloc(size_t n, size_t m) { return memalign(16, n * m); }
size_t malloc_usable_size(void *p) { return p ? ((size_t *)p)[-1] : 0; }
void free(void *p) { if (p && !theirs(p)) strangers++; }
void *realloc(void *p, size_t n) {
  void *q = malloc(n);
  if (p && !theirs(p)) strangers++;
  else if (p && q) memcpy(q, p, malloc_usable_size(p) < n ? malloc_usable_size(p) : n);
  return q;
}
void *aligned_alloc(size_t a, size_t n) { return memalign(a, n); }
int posix_memalign(void **p, size_t a, size_t n) { return (*p = memalign(a, n)) ? 0 : 12; }
#else
extern int theirs(void *), strangers;
int main(void) {
  void *p[8] = {malloc(10), calloc(3, 5), realloc(0, 1 << 20), aligned_alloc(64, 64), strdup("x"), malloc(4 << 20)};
  if (posix_memalign(&p[6], 128, 1000)) return 1;
  for (int i = 0; i < 7; i++) if (!theirs(p[i])) { printf("%d is not theirs\n", i); return 2; }
  p[5] = realloc(p[5], 5 << 20);
  if (!theirs(p[5]) || ((uintptr_t)p[3] & 63)) return 3;
  for (int i = 0; i < 7; i++) free(p[i]);
  FILE *f = fopen("/proc/self/maps", "r");
  char line[1000];
  while (fgets(line, sizeof line, f)) {}
  fclose(f);
  return strangers ? 4 : 0;
}
#endif
