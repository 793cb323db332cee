// SPDX-License-Identifier: Apache-2.0
#ifndef CLINUXSLEEP_H
#define CLINUXSLEEP_H
// Messages of logind about the machine's sleep, received by sd-bus of libsystemd. The library is loaded only when it is needed,
// so programs start even without it.
#include <stdint.h>

struct clinux_sleep;

// Connects to the system bus, subscribes to logind's messages, and asks logind to delay the machine's sleep for this process.
// Returns 0 or a negative error: -ENOSYS if the library is missing, another error if logind cannot be reached.
int clinux_sleep_open(const char *reason, struct clinux_sleep **out);
void clinux_sleep_close(struct clinux_sleep *sleep);
// Waits for the next message, but for at most this number of microseconds. Returns 1 if the machine is about to sleep. Returns
// 2 if the machine is awake again, or does not go to sleep. Returns 0 if no message has come, or a negative error. After an
// error, no more messages come.
int clinux_sleep_wait(struct clinux_sleep *sleep, uint64_t microseconds);
// `clinux_sleep_delay` asks logind once more to delay the machine's sleep. `clinux_sleep_go` lets the machine sleep.
int clinux_sleep_delay(struct clinux_sleep *sleep, const char *reason);
void clinux_sleep_go(struct clinux_sleep *sleep);
#endif
