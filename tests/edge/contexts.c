/* Coroutines whose stacks lie in blocks of malloc's, in mappings and in static data. Some of these blocks held a result before,
 * deep in what is now the stack; and while a coroutine waits, another context multiplies matrices that lie in its stack. No page
 * of these stacks may be inaccessible: the kernel kills a process if it cannot write a signal's frame. */
#include <sys/mman.h>
#include <ucontext.h>

#include "edge.h"

enum { N = 40, NN = N * N, STACK = 1 << 18, ROUNDS = 4, DEEP = 90 };
static double *a, *b, *c, *large_a, *large_b, *offered;
/* Number of bytes by which the top of the stack is moved within its page. */
static size_t shift;
static uint64_t seen;
static char fixed[STACK] __attribute__((aligned(4096)));

/* Leaves a result in the second quarter of memory that then becomes a stack: only a coroutine that goes deep gets there. */
static void occupy(char *memory)
{
    multiply(DEEP, 1, large_a, large_b, 0, (double *)(memory + STACK / 4));
}

/* Goes down through the upper two quarters of a stack and most of the second one. */
__attribute__((noinline)) static double descend(int frames)
{
    volatile double frame[128];
    frame[0] = frames;
    return frames ? descend(frames - 1) + frame[0] : 0;
}

/* Has matrices in its stack multiplied by the other context, and reads the result. */
static void offer(void (*wait)(void), int calls)
{
    double x[2 * NN];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < NN; i++)
            x[i] = (i + round) % 5 - 2, x[NN + i] = 0;
        if (calls)
            multiply(N, 1, a, b, 0, c);
        seen += (uint64_t)descend(150);
        offered = x;
        wait();
        seen = seen * 31 + hash(x, 2 * NN);
    }
    offered = NULL;
    wait();
}

static void use(void (*resume)(void))
{
    for (resume(); offered; resume()) {
        multiply(N, 1, offered, b, 0, offered + NN);
        multiply(N, 1, a, offered + NN, 1, offered);
    }
}

/* Switched by the C library's swapcontext. */
static ucontext_t of_main, of_other;

static void yield(void)
{
    swapcontext(&of_other, &of_main);
}

static void resume(void)
{
    swapcontext(&of_main, &of_other);
}

static void body(void)
{
    offer(yield, 0);
}

static void made(void *stack)
{
    getcontext(&of_other);
    of_other.uc_stack.ss_sp = stack;
    of_other.uc_stack.ss_size = STACK - shift;
    of_other.uc_link = &of_main;
    makecontext(&of_other, body, 0);
    use(resume);
}

/* Switched by a few instructions that nothing can hook, as libraries of coroutines do it. Such a coroutine calls a BLAS itself
 * before it offers anything. */
void switch_stacks(void **here, void *there);
__asm__(".text\n.type switch_stacks, @function\nswitch_stacks:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
        ".size switch_stacks, . - switch_stacks\n");
static void *main_stack, *other_stack;

static void yield_switched(void)
{
    switch_stacks(&other_stack, main_stack);
}

static void resume_switched(void)
{
    switch_stacks(&main_stack, other_stack);
}

static void body_switched(void)
{
    offer(yield_switched, 1);
}

static void switched(void *stack)
{
    void **top = (void **)((char *)stack + STACK - shift);
    *--top = NULL;
    *--top = (void *)body_switched;
    /* Six registers. */
    other_stack = memset(top - 6, 0, 6 * sizeof *top);
    use(resume_switched);
}

static void *mapped(void)
{
    void *at = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        exit(2);
    return at;
}

static void run(const char *what, void (*coroutine)(void *stack), void *stack)
{
    for (shift = 0; shift < 4096; shift += 1024)
        coroutine(stack);
    printf("%s: %016llx\n", what, (unsigned long long)seen);
}

int main(int argc, char **argv)
{
    void (*coroutine)(void *) = argc > 1 && !strcmp(argv[1], "switched") ? switched : made;
    setvbuf(stdout, NULL, _IOLBF, 0);
    a = doubles(NN), b = doubles(NN), c = doubles(NN);
    fill(a, NN);
    fill(b, NN);
    large_a = doubles(DEEP * DEEP), large_b = doubles(DEEP * DEEP);
    fill(large_a, DEEP * DEEP);
    fill(large_b, DEEP * DEEP);
    for (int i = 0; i < 3; i++) {
        /* A matrix, a stack, and a matrix again; and the same addresses for the next one. */
        char *memory = (char *)doubles(STACK / sizeof(double));
        if (i & 1)
            occupy(memory);
        run("allocated", coroutine, memory);
        run("once more", coroutine, memory);
        multiply(N, 1, a, b, 0, (double *)memory);
        show("as a matrix", (double *)memory, NN);
        free(memory);
        memory = mapped();
        if (i & 1)
            occupy(memory);
        run("mapped", coroutine, memory);
        munmap(memory, STACK);
        run("static", coroutine, fixed);
    }
    multiply(N, 1, a, b, 0, c);
    show("c", c, NN);
    return 0;
}
