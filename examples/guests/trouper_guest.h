/* The C side of docs/guest-abi.md. No libc needed: build with
 *   python -m ziglang cc --target=wasm32-freestanding -O2 -nostdlib \
 *     -Wl,--no-entry -Wl,-z,stack-size=65536 -Wl,--strip-all -o guest.wasm guest.c
 */
#ifndef TROUPER_GUEST_H
#define TROUPER_GUEST_H

typedef unsigned char tr_byte;
typedef unsigned int tr_u32;
typedef unsigned long long tr_u64;
typedef long long tr_i64;

#define TR_IMPORT(name) __attribute__((import_module("trouper"), import_name(name)))
#define TR_EXPORT(name) __attribute__((export_name(name), visibility("default")))

/* Ask the provider `name` and wait. Copies the first `room` bytes of the response to `out` and
 * returns the full length of the response. Negative: the run is being ended; return at once. */
TR_IMPORT("provider_call")
tr_i64 tr_provider_call(const char *name, tr_u32 name_len, const void *request, tr_u32 request_len,
                        void *out, tr_u32 room);

/* Copy the next part of the last response; returns how many bytes, 0 when nothing is left. */
TR_IMPORT("provider_take")
tr_i64 tr_provider_take(void *out, tr_u32 room);

/* One line of text for the host's log. */
TR_IMPORT("log")
void tr_log(const char *text, tr_u32 length);

/* What `run` returns: where the output lies, and how long it is. */
static inline tr_i64 tr_output(const void *data, tr_u32 length) {
    return (tr_i64)(((tr_u64)(tr_u32)(unsigned long)data << 32) | length);
}

#endif
