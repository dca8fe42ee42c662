/* The native half of Edge.java. */
#include <jni.h>
#include <signal.h>

#include "edge.h"

JNIEXPORT void JNICALL Java_Edge_multiply(JNIEnv *env, jclass class, jint n, jobject a, jobject b, jobject c)
{
    (void)class;
    multiply(n, 1, (*env)->GetDirectBufferAddress(env, a), (*env)->GetDirectBufferAddress(env, b), 0,
             (*env)->GetDirectBufferAddress(env, c));
}

JNIEXPORT void JNICALL Java_Edge_multiplyArrays(JNIEnv *env, jclass class, jint n, jdoubleArray a, jdoubleArray b,
                                                jdoubleArray c)
{
    (void)class;
    double *x = (*env)->GetPrimitiveArrayCritical(env, a, NULL), *y = (*env)->GetPrimitiveArrayCritical(env, b, NULL),
           *z = (*env)->GetPrimitiveArrayCritical(env, c, NULL);
    multiply(n, 1, x, y, 0, z);
    (*env)->ReleasePrimitiveArrayCritical(env, c, z, 0);
    (*env)->ReleasePrimitiveArrayCritical(env, b, y, JNI_ABORT);
    (*env)->ReleasePrimitiveArrayCritical(env, a, x, JNI_ABORT);
}

/* The virtual machine's handler is what it finds there. */
JNIEXPORT jboolean JNICALL Java_Edge_handlersKept(JNIEnv *env, jclass class)
{
    struct sigaction now;
    (void)env, (void)class;
    return sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler != SIG_DFL && (now.sa_flags & SA_SIGINFO);
}
