/* A tool that takes the annotations of NVTX: loaded through NVTX_INJECTION64_PATH, writes one line per annotation into the
 * file that ATTACHED names, with the depth of the thread's ranges:
 *
 *   push DEPTH TEXT
 *   pop DEPTH
 *   mark DEPTH TEXT
 *
 * The interface is that of NVTX 3's headers: nvtxDetail/nvtxTypes.h has the tables. */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef void (*function)(void);
typedef const void *(*export_table)(uint32_t id);

enum { CALLBACKS = 1, CORE = 1, MARK_A = 2, RANGE_PUSH_A = 9, RANGE_POP = 11 };

struct callbacks {
    size_t size;
    int (*functions_of_module)(int module, function ***table, unsigned *size);
};

static int file = -1;
static _Thread_local int depth;

static void line(const char *what, const char *text)
{
    char all[256];
    int length = snprintf(all, sizeof all, "%s %d%s%s\n", what, depth, *text ? " " : "", text);
    if (length >= (int)sizeof all || write(file, all, (size_t)length) != length)
        abort();
}

static int push(const char *text)
{
    line("push", text);
    return depth++;
}

static int pop(void)
{
    depth--;
    line("pop", "");
    return depth;
}

static void mark(const char *text)
{
    line("mark", text);
}

int InitializeInjectionNvtx2(export_table exported)
{
    const struct callbacks *callbacks = exported(CALLBACKS);
    function **table;
    unsigned size;
    if (!callbacks || !callbacks->functions_of_module(CORE, &table, &size) || size <= RANGE_POP)
        return 0;
    file = open(getenv("ATTACHED"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0)
        return 0;
    *table[MARK_A] = (function)mark;
    *table[RANGE_PUSH_A] = (function)push;
    *table[RANGE_POP] = (function)pop;
    return 1;
}
