/* Properties of dlsym that programs rely on. Built twice: as a library in front of libm that looks up the next
 * definition, and as the program. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define check(x) do { if (!(x)) { printf("line %d: %s\n", __LINE__, #x); exit(1); } } while (0)

#ifdef LIBRARY
/* The next definition after this library, not after the library whose hook calls libc's dlsym. */
double cos(double x) {
  double (*next)(double) = (double (*)(double))dlsym(RTLD_NEXT, "cos");
  return next && next != cos ? next(x) + 2 : -1;
}
void *next_of(const char *name) { return dlsym(RTLD_NEXT, name); }
#else
double cos(double x);
void *next_of(const char *name);
int main(void) {
  check(cos(0.0) == 3.0);
  check(next_of("cos") && next_of("cos") != (void *)cos);
  check(dlsym(RTLD_DEFAULT, "cos") == (void *)cos);
  check(dlsym(RTLD_DEFAULT, "strlen") && ((size_t(*)(const char *))dlsym(RTLD_DEFAULT, "strlen"))("four") == 4);
  check(!dlsym(RTLD_DEFAULT, "no_such_function") && strstr(dlerror(), "no_such_function") && !dlerror());
  /* Names of the driver's that no library defines: the preloaded library must not define them either. */
  const char *names[] = {"cuCtxCreate_v2", "cuGetProcAddress_v2", "cuDevicePrimaryCtxRetain", "cuNothing", "cu", "c", ""};
  void *self = dlopen(NULL, RTLD_NOW);
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
    check(!dlsym(RTLD_DEFAULT, names[i]));
    check(!dlsym(self, names[i]));
    check(!next_of(names[i]));
  }
  void *m = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
  check(m && dlsym(m, "cosh") && !dlsym(m, "cuCtxCreate_v2"));
  check(dlsym(dlopen("libc.so.6", RTLD_NOW), "dlsym"));
  puts("fine");
  return 0;
}
#endif
