// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "CLinuxSleep.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

// Declarations of <systemd/sd-bus.h>, because the build must not require this header. One of the functions is from 2018. The
// others are as old as logind's signal, or older.
typedef struct sd_bus sd_bus;
typedef struct sd_bus_message sd_bus_message;
typedef int (*handler)(sd_bus_message *, void *, void *);

struct clinux_sleep {
    sd_bus *bus;
    int lock;                           // logind waits as long as this descriptor is open
    int news;                           // the value of the last signal
    int (*open_system)(sd_bus **);
    int (*match_signal)(sd_bus *, void **, const char *, const char *, const char *, const char *, handler, void *);
    int (*call_method)(sd_bus *, const char *, const char *, const char *, const char *, void *, sd_bus_message **,
                       const char *, ...);
    int (*read)(sd_bus_message *, const char *, ...);
    sd_bus_message *(*unref)(sd_bus_message *);
    int (*process)(sd_bus *, sd_bus_message **);
    int (*wait)(sd_bus *, uint64_t);
    sd_bus *(*close)(sd_bus *);
};

static const char logind[] = "org.freedesktop.login1";
static const char path[] = "/org/freedesktop/login1";
static const char manager[] = "org.freedesktop.login1.Manager";

static int load(struct clinux_sleep *sleep) {
    // The library is never unloaded, because it may have stored data for threads of the process.
    void *library = dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library) return -ENOSYS;
    const struct { void *place; const char *name; } functions[] = {
        {&sleep->open_system, "sd_bus_open_system"},   {&sleep->match_signal, "sd_bus_match_signal"},
        {&sleep->call_method, "sd_bus_call_method"},   {&sleep->read, "sd_bus_message_read"},
        {&sleep->unref, "sd_bus_message_unref"},       {&sleep->process, "sd_bus_process"},
        {&sleep->wait, "sd_bus_wait"},                 {&sleep->close, "sd_bus_flush_close_unref"},
    };
    for (size_t index = 0; index < sizeof functions / sizeof *functions; index++) {
        void *function = dlsym(library, functions[index].name);
        if (!function) return -ENOSYS;
        *(void **)functions[index].place = function;
    }
    return 0;
}

static int prepare_for_sleep(sd_bus_message *message, void *context, void *error) {
    (void)error;
    struct clinux_sleep *sleep = context;
    int begins = 0;
    if (sleep->read(message, "b", &begins) > 0) sleep->news = begins ? 1 : 2;
    return 0;
}

int clinux_sleep_open(const char *reason, struct clinux_sleep **out) {
    struct clinux_sleep *sleep = calloc(1, sizeof *sleep);
    if (!sleep) return -ENOMEM;
    sleep->lock = -1;
    int result = load(sleep);
    if (result == 0) result = sleep->open_system(&sleep->bus);
    // The program subscribes to the signal before it requests the delay of the machine's sleep. In the opposite order, a signal
    // between the two calls would be lost.
    if (result >= 0)
        result = sleep->match_signal(sleep->bus, NULL, logind, path, manager, "PrepareForSleep", prepare_for_sleep, sleep);
    if (result >= 0) result = clinux_sleep_delay(sleep, reason);
    if (result < 0) {
        clinux_sleep_close(sleep);
        return result;
    }
    *out = sleep;
    return 0;
}

void clinux_sleep_close(struct clinux_sleep *sleep) {
    clinux_sleep_go(sleep);
    if (sleep->bus) sleep->close(sleep->bus);
    free(sleep);
}

int clinux_sleep_wait(struct clinux_sleep *sleep, uint64_t microseconds) {
    while (1) {
        int result = sleep->process(sleep->bus, NULL);
        if (result < 0) return result;
        int news = sleep->news;
        sleep->news = 0;
        if (news) return news;
        if (result > 0) continue;
        result = sleep->wait(sleep->bus, microseconds);
        if (result < 0 && result != -EINTR) return result;
        if (result == 0) return 0;
    }
}

int clinux_sleep_delay(struct clinux_sleep *sleep, const char *reason) {
    clinux_sleep_go(sleep);
    sd_bus_message *answer = NULL;
    int result = sleep->call_method(
        sleep->bus, logind, path, manager, "Inhibit", NULL, &answer, "ssss", "sleep", "Truce", reason, "delay");
    if (result < 0) return result;
    int lock = -1;
    result = sleep->read(answer, "h", &lock);
    // The descriptor is duplicated, because the message closes its own descriptor when it is released.
    if (result > 0) {
        sleep->lock = fcntl(lock, F_DUPFD_CLOEXEC, 3);
        if (sleep->lock < 0) result = -errno;
    }
    sleep->unref(answer);
    return result < 0 ? result : 0;
}

void clinux_sleep_go(struct clinux_sleep *sleep) {
    if (sleep->lock >= 0) close(sleep->lock);
    sleep->lock = -1;
}
