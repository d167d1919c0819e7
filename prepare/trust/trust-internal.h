/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shared by the sources of prepare/trust/. */

#include <pthread.h>

#include "library/libgpgme.h"
#include "prepare/trust/trust.h"

/* --- GPGME and gpg (gpg.c) ----------------------------------------------------------------------------- */

/* A private home directory for gpg that is removed with the process. */
typedef struct GpgHome {
        int fd;     /* a tmpfs that is mounted nowhere, or a directory with a flock */
        char *path; /* path for gpg */
        char *name; /* of a directory to remove; NULL: none */
} GpgHome;

#define GPG_HOME_NULL ((GpgHome){.fd = -EBADF})
/* OPTIONS: additional lines for gpg.conf, or NULL. */
int gpg_home_new(const char *options, GpgHome *ret, Error *e);
void gpg_home_done(GpgHome *h);
#define _cleanup_gpg_home_ _cleanup_(gpg_home_done)

static inline void gpg_context_releasep(gpgme_ctx_t *c)
{
        if (*c)
                gpgme_release(*c);
}
static inline void gpg_data_releasep(gpgme_data_t *d)
{
        if (*d)
                gpgme_data_release(*d);
}
static inline void gpg_key_unrefp(gpgme_key_t *k)
{
        if (*k)
                gpgme_key_unref(*k);
}
#define _cleanup_gpg_context_ _cleanup_(gpg_context_releasep)
#define _cleanup_gpg_data_ _cleanup_(gpg_data_releasep)
#define _cleanup_gpg_key_ _cleanup_(gpg_key_unrefp)

/* A context for gpg with this home; NULL: the user's. O, or NULL: the operation that it is for. -ENOPKG: there is no
 * gpg. */
int gpg_context_new(const Operation *o, const char *home, gpgme_ctx_t *ret, Error *e);
/* Sets "MESSAGE: error of gpg"; returns a negative errno. */
int gpg_fail(Error *e, gpgme_error_t err, const char *format, ...) _printf_(3, 4);
/* Block size for passing data on. */
#define GPG_IO_BUFFER_SIZE "65536"
int gpg_data_from_callbacks(gpgme_data_cbs_t callbacks, void *userdata, gpgme_data_t *ret, Error *e);
/* Starts a thread with all signals blocked (except those of its own faults). */
int gpg_thread_start(pthread_t *ret, void *(*function)(void *), void *userdata, Error *e);

/* --- Calls of GPGME (gpg-call.c) ----------------------------------------------------------------------- */

#define GPG_TIME_LIMIT_USEC (120U * 1000000U) /* in which gpg has to respond */
#define GPG_CALL_WAITS UINT64_MAX

/* A call of GPGME that ends, by killing gpg, when its operation does, and when gpg does not respond. */
typedef struct GpgCall {
        const Operation *operation;
        uint64_t limit_usec; /* 0: none */
        uint64_t since_usec; /* atomic; CLOCK_MONOTONIC; GPG_CALL_WAITS: gpg waits for data of this program */
        pthread_t thread;
        bool running, stopped;
        int event_fd, receive_fd, send_fd;
        int command; /* atomic */

        /* The thread's while it runs. */
        int *processes; /* pidfds */
        size_t n_processes, n_processes_allocated, n_kills;
        int result;
        Error error;
} GpgCall;

#define GPG_CALL_NULL                                                                                       \
        ((GpgCall){.event_fd = -EBADF, .receive_fd = -EBADF, .send_fd = -EBADF, .error = ERROR_NULL})

/* For one call, or several in a row, all in this thread: to be called right before and after it. If gpg was killed,
 * gpg_call_end() returns the reason, which replaces the error of GPGME: -EINTR and -ETIME (operation_check()),
 * -ETIMEDOUT. After an error of gpg_call_begin() there is nothing to end. */
int gpg_call_begin(GpgCall *c, const Operation *o, Error *e);
int gpg_call_end(GpgCall *c, Error *e);

/* The same in steps, for a call in a thread of its own: start; in that thread enter and leave; finish (any number of
 * times, when that thread has ended), and done. LIMIT_USEC 0: gpg may wait for the user. */
int gpg_call_start(GpgCall *c, const Operation *o, uint64_t limit_usec, Error *e);
void gpg_call_enter(GpgCall *c);
void gpg_call_leave(void);
/* By callbacks of GPGME: time in which gpg waits for this program does not count. */
void gpg_call_waits(GpgCall *c, bool waits);
/* Kills gpg: the call returns, and gpg_call_finish() returns -ECANCELED. */
void gpg_call_stop(GpgCall *c);
int gpg_call_finish(GpgCall *c, Error *e);
void gpg_call_done(GpgCall *c);

/* --- OpenPGP packets (packets.c) ----------------------------------------------------------------------- */

enum {
        PACKET_PUBKEY_SESSION_KEY = 1,
        PACKET_SIGNATURE = 2,
        PACKET_SYMKEY_SESSION_KEY = 3,
        PACKET_SECRET_KEY = 5,
        PACKET_PUBLIC_KEY = 6,
        PACKET_SECRET_SUBKEY = 7,
        PACKET_ENCRYPTED = 9, /* without integrity protection */
        PACKET_MARKER = 10,
        PACKET_TRUST = 12,
        PACKET_USER_ID = 13,
        PACKET_PUBLIC_SUBKEY = 14,
        PACKET_ATTRIBUTE = 17,
        PACKET_ENCRYPTED_MDC = 18,
        PACKET_ENCRYPTED_AEAD = 20,
        PACKET_PADDING = 21,
};

/* Follows the framing of packets through a stream, block by block. */
typedef struct PacketReader PacketReader;

/* Called once per packet, when its first three bytes were read (HEAD; fewer if it is shorter). OFFSET: of
 * the packet in the stream. A negative return ends the reading. */
typedef int (*PacketFunction)(int tag, const unsigned char *head, size_t n_head, uint64_t offset,
                              void *userdata, Error *e);

struct PacketReader {
        PacketFunction function;
        void *userdata;
        uint64_t offset, packet_offset;
        uint64_t left; /* remaining bytes of the body, or of its current part */
        unsigned char header[6], head[3];
        size_t n_header, n_head;
        int tag; /* -1: between two packets */
        bool partial, endless, called;
};

void packet_reader_init(PacketReader *p, PacketFunction function, void *userdata);
/* -EBADMSG: no packets; or the error of the function. */
int packet_reader_feed(PacketReader *p, const void *data, size_t size, Error *e);
/* To be called at the end of the stream: -EBADMSG in the middle of a packet. */
int packet_reader_finish(PacketReader *p, Error *e);

/* The bytes of all armored blocks of KIND ("PGP SIGNATURE") in a text, joined; *RET_N is their number.
 * -EBADMSG: damaged, or a block of another kind is among them. */
int armor_decode(const char *text, size_t size, const char *kind, unsigned char **ret, size_t *ret_size,
                 size_t *ret_n, Error *e);
bool armor_is(const void *data, size_t size);

/* --- Public keys as bytes (packets.c) ------------------------------------------------------------------ */

/* Checks that DATA, armored or binary, contains only public keys, and returns them in binary form. */
int public_keys_decode(const void *data, size_t size, const char *what, unsigned char **ret,
                       size_t *ret_size, Error *e);

/* --- The files of trusted keys (keyring.c) ------------------------------------------------------------- */

#define TRUSTED_KEYS "trustedkeys"

/* A file below trustedkeys. */
typedef struct TrustFile {
        char *fingerprint; /* upper case */
        char *prefix;      /* "": root */
        char *path;
        char *data;
        size_t size; /* 0: it masks others */
        char *stamp; /* changes whenever the file does */
        size_t dir;  /* index of its configuration directory */
        bool hidden; /* masked by one of an earlier directory */
} TrustFile;

struct Trust {
        const Operation *operation; /* for which gpg is run; or NULL */
        char **dirs;                /* configuration directories */
        char *only;                 /* a fingerprint: files of other keys are not read; or NULL */
        TrustFile *files;
        size_t n_files, allocated;
        char **strays;

        pthread_mutex_t mutex; /* protects the members below */
        GpgHome home;          /* with all keys imported; created when first needed */
        bool has_home;
};

/* Reads the directories again. */
int trust_reload(Trust *t, Error *e);
/* Whether F makes its key trusted. */
static inline bool trust_file_counts(const TrustFile *f)
{
        return f->size > 0 && !f->hidden;
}
/* The longest prefix by which the key is trusted for NAME (owned by T), or NULL. NAME NULL: for anything. */
const char *trust_find(const Trust *t, const char *fingerprint, const char *name);
/* trust_open() that reads the files of one key alone. */
int trust_open_key(const char *const *config_dirs, const char *fingerprint, const Operation *o, Trust **ret,
                   Error *e);
/* A string that changes with the files that make the key trusted, for anything. NULL: out of memory. */
char *trust_stamp(const Trust *t, const char *fingerprint);
/* " only for 'example.com/x' and 'example.com/y'", of a key that is trusted for something. */
void trust_add_prefixes(Text *t, const Trust *trust, const char *fingerprint);
/* The directory of a prefix ("": root keys) below trustedkeys: "root.d", "prefix.d/example.com,app". */
int trust_prefix_directory(const char *prefix, char **ret);
/* Opens NAME in a directory, PATH in messages: without following symlinks, and only if other users cannot
 * write to it. */
int trust_open_directory(int parent_fd, const char *name, const char *path, int *ret_fd, Error *e);

/* --- Keys in a home of gpg (keys.c) -------------------------------------------------------------------- */

/* Imports the result of public_keys_decode(); keys that gpg rejects are skipped. */
int keys_import(const Operation *o, const char *home, const void *data, size_t size, Error *e);
/* A home with all keys of T; owned by T. */
int trust_home(Trust *t, const char **ret, Error *e);
/* "KEY (USER ID)", escaped for terminals. */
int key_name(const TrustKey *k, char **ret);
int key_describe(gpgme_key_t key, TrustKey *ret);
void trust_key_done(TrustKey *k);

/* --- Passphrases (passphrase.c) ------------------------------------------------------------------------ */

/* A home in which gpg uses the passphrase in the file PATH. *RET_FD has to be kept open. */
int passphrase_home_new(const char *path, const char *more_options, GpgHome *ret, int *ret_fd, Error *e);

/* --- The result of a signature (verdict.c) ------------------------------------------------------------- */

/* Why a key, or its subkey with FINGERPRINT (or the end of it), is not usable. */
gpg_err_code_t key_evaluate(gpgme_key_t key, const char *fingerprint);
/* When that key or the primary key expires, whichever is first; 0: neither does. */
uint64_t key_expiry(gpgme_key_t key, const char *fingerprint);
/* The key with FINGERPRINT, its own or that of a subkey. *RET NULL: not in that home, or gpg cannot read it. An error:
 * gpg was killed. */
int key_get(const Operation *o, const char *home, const char *fingerprint, gpgme_key_t *ret, Error *e);

/* Evaluates the result of gpg (CONTEXT has verified). NAME: the image; NULL: not known yet; then bad
 * signatures are accepted. */
int verdict(Trust *t, gpgme_ctx_t context, const char *what, const char *name, Signer *ret, Error *e);
