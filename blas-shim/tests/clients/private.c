/* Two plugins, loaded privately, each linked with a BLAS of its own that exports the same names: each plugin's calls
 * must reach its own BLAS. And a third plugin that only calls through a pointer that it was given. -DPROVIDER=n,
 * -DPLUGIN=n. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#if defined PROVIDER
double ddot_(const int *n, const double *x, const int *ix, const double *y, const int *iy) { return PROVIDER; }
void dsyrk_(int *which) { *which = PROVIDER; }
int isamax_(const int *n, const float *x, const int *ix) { return *n; }
#elif defined PLUGIN
double ddot_(const int *, const double *, const int *, const double *, const int *);
void dsyrk_(int *);
double ask_dot(void) {
  int n = 0, one = 1;
  volatile double r = ddot_(&n, 0, &one, 0, &one);
  return r;
}
int ask_syrk(void) {
  int which = 0;
  dsyrk_(&which);
  return which;
}
#elif defined POINTER
/* Imports no name: a call from here does not say which library it means. */
double ask_through(double (*f)(const int *, const double *, const int *, const double *, const int *)) {
  int n = 1, one = 1;
  double x = 1;
  volatile double r = f(&n, &x, &one, &x, &one);
  return r;
}
#else
extern uint64_t semcache_test_host_calls(int) __attribute__((weak));
static void *need(void *handle, const char *name) {
  void *p = dlsym(handle, name);
  if (!p) printf("no %s\n", name);
  return p;
}
int main(int argc, char **argv) {
  int bad = 0;
  for (int round = 0; round < 3; round++)
    for (int i = 1; i <= 2; i++) {
      void *h = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
      if (!h) { printf("%s\n", dlerror()); return 2; }
      double dot = ((double (*)(void))need(h, "ask_dot"))();
      int syrk = ((int (*)(void))need(h, "ask_syrk"))();
      if (dot != i || syrk != i) { printf("plugin %d reached %g and %d\n", i, dot, syrk); bad++; }
    }
  /* The caller may mean either of two libraries: the first is called, and the call is not offloaded. */
  uint64_t many = semcache_test_host_calls ? semcache_test_host_calls(3) : 0;
  void *h = dlopen(argv[3], RTLD_NOW | RTLD_LOCAL);
  void *ours = dlsym(RTLD_DEFAULT, "ddot_");
  double r = ((double (*)(void *))need(h, "ask_through"))(ours);
  if (r != 1) { printf("through a pointer: %g\n", r); bad++; }
  if (semcache_test_host_calls && semcache_test_host_calls(3) != many + 1) { printf("not counted\n"); bad++; }
  return bad != 0;
}
#endif
