/* A call of every exported spelling reaches the function of the same name in the provider, with all registers and
 * stack arguments unchanged. Compiled twice: -DPROVIDER makes the library whose functions record their arguments,
 * from NAMES, a generated list of X(symbol, offloadable, whether the name may be the program's own). */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct seen {
  const char *name;
  uint64_t gpr[6], rax, stack[2];
  double xmm[8];
};

#ifdef PROVIDER
struct seen mock_seen;
#define X(symbol, offload, any)                                                                    \
  __asm__(".text\n.globl " #symbol "\n.type " #symbol ",@function\n" #symbol ":\n"                 \
          "lea 1f(%rip), %r11\njmp mock_record\n1: .asciz \"" #symbol "\"\n");
#include NAMES
__asm__("mock_record:\n"
        "mov mock_seen@GOTPCREL(%rip), %r10\n"
        "mov %r11, (%r10)\n"
        "mov %rdi, 8(%r10)\nmov %rsi, 16(%r10)\nmov %rdx, 24(%r10)\n"
        "mov %rcx, 32(%r10)\nmov %r8, 40(%r10)\nmov %r9, 48(%r10)\nmov %rax, 56(%r10)\n"
        "mov 8(%rsp), %r11\nmov %r11, 64(%r10)\nmov 16(%rsp), %r11\nmov %r11, 72(%r10)\n"
        "movsd %xmm0, 80(%r10)\nmovsd %xmm1, 88(%r10)\nmovsd %xmm2, 96(%r10)\nmovsd %xmm3, 104(%r10)\n"
        "movsd %xmm4, 112(%r10)\nmovsd %xmm5, 120(%r10)\nmovsd %xmm6, 128(%r10)\nmovsd %xmm7, 136(%r10)\n"
        "mov $77, %eax\nret\n");
#else
extern struct seen mock_seen;
#define X(symbol, offload, any) extern void symbol(void);
#include NAMES
#undef X

static int failures;
static uint64_t zero[6][2];

/* Calls f with a pattern in every argument register, rax included, and two words on the stack. */
static uint64_t call(void *f, const double *xmm) {
  uint64_t result;
  __asm__ volatile(
      "movsd (%[x]), %%xmm0\nmovsd 8(%[x]), %%xmm1\nmovsd 16(%[x]), %%xmm2\nmovsd 24(%[x]), %%xmm3\n"
      "movsd 32(%[x]), %%xmm4\nmovsd 40(%[x]), %%xmm5\nmovsd 48(%[x]), %%xmm6\nmovsd 56(%[x]), %%xmm7\n"
      "mov %[z], %%rdi\nlea 16(%[z]), %%rsi\nlea 32(%[z]), %%rdx\nlea 48(%[z]), %%rcx\n"
      "lea 64(%[z]), %%r8\nlea 80(%[z]), %%r9\n"
      "push %%rbp\nmov %%rsp, %%rbp\nand $-16, %%rsp\n"
      ".rept 16\npush %[z]\n.endr\n" /* further arguments on the stack: of batches the number of groups, zero */
      "push %[z]\npush $1234\n"
      "mov $8, %%eax\n"
      "call *%[f]\n"
      "mov %%rbp, %%rsp\npop %%rbp\n"
      : "=&a"(result)
      : [f] "b"(f), [x] "r"(xmm), [z] "r"((uint64_t)zero)
      : "rdi", "rsi", "rdx", "rcx", "r8", "r9", "r10", "r11", "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3",
        "xmm4", "xmm5", "xmm6", "xmm7");
  return result;
}

static void try(const char *name, void *f, int offload, int any) {
  static const double xmm[8] = {1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5};
  for (int round = 0; round < 3; round++) { /* call site unknown, then known, then found in assembly */
    memset(&mock_seen, 0, sizeof mock_seen);
    uint64_t result = call(f, xmm);
    int bad = !mock_seen.name || strcmp(mock_seen.name, name) || result != 77;
    for (int i = 0; i < 6; i++) bad |= mock_seen.gpr[i] != (uint64_t)zero[i];
    bad |= mock_seen.rax != 8 || mock_seen.stack[0] != 1234 || mock_seen.stack[1] != (uint64_t)zero;
    /* Routines that may be offloaded have two floating point arguments at most. */
    for (int i = 0; i < (offload && !any ? 2 : 8); i++) bad |= mock_seen.xmm[i] != xmm[i];
    if (bad) {
      printf("%s round %d: reached %s\n", name, round, mock_seen.name ? mock_seen.name : "nothing");
      failures++;
    }
  }
}

int main(void) {
  int symbols = 0;
#define X(symbol, offload, any) try(#symbol, symbol, offload, any), symbols++;
#include NAMES
  printf("%d symbols, %d failures\n", symbols, failures);
  return failures != 0;
}
#endif
