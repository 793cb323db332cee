// SPDX-License-Identifier: Apache-2.0
#ifndef CLINUXSLEEP_H
#define CLINUXSLEEP_H
// What logind says of the machine's sleep, by libsystemd's sd-bus. The library is loaded when it is wanted: no program
// needs it to start.
#include <stdint.h>

struct clinux_sleep;

// Connects and listens; also asks logind to wait for us before the machine sleeps. Returns 0 or a negative error: -ENOSYS
// without the library, anything else without logind.
int clinux_sleep_open(const char *reason, struct clinux_sleep **out);
void clinux_sleep_close(struct clinux_sleep *sleep);
// Waits for the next news, for so many microseconds at most: 1 the machine is about to sleep, 2 it is awake or stays so, 0
// neither came, or a negative error after which there is no news any more.
int clinux_sleep_wait(struct clinux_sleep *sleep, uint64_t microseconds);
// Asks logind again to wait for us, or has it wait no longer.
int clinux_sleep_delay(struct clinux_sleep *sleep, const char *reason);
void clinux_sleep_go(struct clinux_sleep *sleep);
#endif
