// SPDX-License-Identifier: Apache-2.0
#ifndef CLINUXSLEEP_H
#define CLINUXSLEEP_H
// logind's messages about the machine's sleep, by libsystemd's sd-bus. The library is loaded on demand: no program needs it to
// start.
#include <stdint.h>

struct clinux_sleep;

// Connects and subscribes; also asks logind to delay the machine's sleep for this process. Returns 0 or a negative error:
// -ENOSYS without the library, any other error without logind.
int clinux_sleep_open(const char *reason, struct clinux_sleep **out);
void clinux_sleep_close(struct clinux_sleep *sleep);
// Waits for the next message, for so many microseconds at most. Returns 1 if the machine is about to sleep, 2 if it is awake
// or stays so, 0 after no message, or a negative error. After an error there are no more messages.
int clinux_sleep_wait(struct clinux_sleep *sleep, uint64_t microseconds);
// Asks logind again to delay the sleep, or no longer.
int clinux_sleep_delay(struct clinux_sleep *sleep, const char *reason);
void clinux_sleep_go(struct clinux_sleep *sleep);
#endif
