// SPDX-License-Identifier: Apache-2.0
#ifndef CLINUXSLEEP_H
#define CLINUXSLEEP_H
// Messages of logind about the machine's sleep, by libsystemd's sd-bus. The library is loaded only when it is needed, so that
// no program needs it to start.
#include <stdint.h>

struct clinux_sleep;

// Connects to the system bus and subscribes to logind's messages. Asks logind to delay the machine's sleep for this process.
// Returns 0 or a negative error: -ENOSYS if the library is missing, another error if logind cannot be reached.
int clinux_sleep_open(const char *reason, struct clinux_sleep **out);
void clinux_sleep_close(struct clinux_sleep *sleep);
// Waits for the next message, for at most this number of microseconds. Returns 1 if the machine is about to sleep. Returns 2 if
// it is awake again, or does not go to sleep. Returns 0 if no message has come, or a negative error. After an error no more
// messages come.
int clinux_sleep_wait(struct clinux_sleep *sleep, uint64_t microseconds);
// The first function asks logind again to delay the machine's sleep. The second function lets the machine sleep.
int clinux_sleep_delay(struct clinux_sleep *sleep, const char *reason);
void clinux_sleep_go(struct clinux_sleep *sleep);
#endif
