/* What no user of CUDA in a new process can avoid: cuInit, then one context per GPU, each made by a thread of its own. A first call
 * is compared with it.
 *
 *   peer_contexts */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

static int (*retain)(void **context, int device);

static void *make(void *arg)
{
    void *context;
    int *status = arg;
    *status = retain(&context, *status);
    return NULL;
}

static void *symbol(void *driver, const char *name)
{
    void *s = dlsym(driver, name);
    if (!s)
        die("no CUDA here: the driver has no %s", name);
    return s;
}

int main(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *found;
    int (*init)(unsigned), (*count)(int *), gpus = 0, status[64];
    pthread_t threads[64];
    struct series s = {0}, c = {0};
    if (!driver)
        die("no CUDA here: libcuda.so.1 cannot be loaded");
    /* By memcpy: ISO C has no conversion from void * to a function. */
    found = symbol(driver, "cuInit");
    memcpy(&init, &found, sizeof found);
    found = symbol(driver, "cuDeviceGetCount");
    memcpy(&count, &found, sizeof found);
    found = symbol(driver, "cuDevicePrimaryCtxRetain");
    memcpy(&retain, &found, sizeof found);
    double start = now();
    if (init(0) || count(&gpus) || gpus < 1)
        die("no CUDA here: no GPU");
    add(&s, now() - start);
    emit("contexts", (size_t)gpus, "cuInit", &s, "");
    if (gpus > 64)
        gpus = 64;
    start = now();
    for (int i = 0; i < gpus; i++) {
        status[i] = i;
        if (pthread_create(&threads[i], NULL, make, &status[i]))
            die("no thread");
    }
    for (int i = 0; i < gpus; i++) {
        pthread_join(threads[i], NULL);
        if (status[i])
            die("no context on GPU %d: status %d", i, status[i]);
    }
    add(&c, now() - start);
    emit("contexts", (size_t)gpus, "contexts, by threads", &c, "");
    return 0;
}
