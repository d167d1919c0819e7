/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* prepare/trust/: trusted keys per image name, checking signatures while an image is read, and the other
 * uses of OpenPGP: images encrypted with a passphrase, signing and encrypting built images. All of it is
 * done by GPGME, that is the program gpg, in a home directory of its own that contains only what the
 * operation needs; neither the user's keys nor a daemon are involved (except for sign_detached(), which
 * needs the user's secret key).
 *
 * Trusted keys are files, in each of the configuration directories (the first is the administrator's, the
 * others the vendor's):
 *
 *     trustedkeys/root.d/FINGERPRINT               a key that is trusted for every image
 *     trustedkeys/prefix.d/PREFIX/FINGERPRINT      ... for images whose name is PREFIX or begins with PREFIX
 *                                                  and a slash; in the name of the directory PREFIX has ','
 *                                                  for '/'
 *
 * FINGERPRINT is that of the primary key, in lower case hex; the file is a public key, armored or binary. An
 * empty file, or a symlink to /dev/null, masks the file of the same name in the directories that follow.
 * Files that could have been written by other users than root and the current user are refused (see
 * trust_open()).
 */

#include "basic/basic.h"

#define TRUST_KEY_FILE_MAX (1U << 20)  /* bytes of a file of keys */
#define TRUST_SIGNATURE_MAX (1U << 20) /* bytes of a file of signatures */
#define TRUST_PASSPHRASE_MAX 1024U     /* bytes */

/* --- Keys that are trusted (keyring.c) ----------------------------------------------------------------- */

typedef struct Trust Trust;

/* Reads which keys are trusted. CONFIG_DIRS ends with NULL; NULL stands for /etc/acnspawn and
 *  /usr/lib/acnspawn; missing directories are ignored. A directory or file that is a symlink, is owned by
 *  another user than root and the current user, or is writable by others is an error (-EPERM), as the origin
 *  of the keys is unknown. O, or NULL: the operation for which the object is used, which has to outlive it: gpg is
 *  killed when it ends (-EINTR, -ETIME), and if it does not respond for two minutes (-ETIMEDOUT). */
int trust_open(const char *const *config_dirs, const Operation *o, Trust **ret, Error *e);
/* To be freed after all objects that use it. */
Trust *trust_free(Trust *t);
DEFINE_TRIVIAL_CLEANUP_FUNC(Trust *, trust_free);

/* Whether a key is trusted for the image NAME. */
bool trust_covers(const Trust *t, const char *name);
/* Whether the prefix PREFIX ("": everything) covers the image NAME. At component boundaries only:
 * "example.com/app" covers "example.com/app/x", and not "example.com/apple". */
bool trust_prefix_covers(const char *prefix, const char *name) _pure_;

/* Properties of a key. */
typedef struct TrustKey {
        char *fingerprint;     /* of the primary key, upper case hex */
        char **user_ids;       /* UTF-8, unescaped */
        char *algorithm;       /* "ed25519", "rsa4096" */
        uint64_t created_usec; /* since the epoch */
        uint64_t expires_usec; /* 0: never */
        bool expired, revoked, invalid, can_sign;
        char *prefix;  /* trust_list(): "" for a root key; else NULL */
        char *path;    /* trust_list(): the file; else NULL */
        char *problem; /* trust_list(): why the file is not usable, or NULL */
} TrustKey;

typedef struct TrustKeys {
        TrustKey *items;
        size_t n, allocated;
} TrustKeys;

void trust_keys_done(TrustKeys *k);
#define _cleanup_trust_keys_ _cleanup_(trust_keys_done)

/* All keys that are trusted, by prefix. *RET_STRAYS (or NULL): files and directories that are ignored, as
 * their names are not as above. */
int trust_list(Trust *t, TrustKeys *ret, char ***ret_strays, Error *e);

/* --- Changing them (change.c, keys.c) ------------------------------------------------------------------ */

/* The public keys in SIZE bytes of DATA, armored or binary, one or several; WHAT names it in messages ("the
 * key file x.asc"). Private keys and other data are refused. */
int trust_inspect_key(const void *data, size_t size, const char *what, const Operation *o, TrustKeys *ret,
                      Error *e);

/* Trusts the keys in DATA for PREFIX (NULL: root keys), in the first configuration directory, which is
 * created if it is missing. Existing packets of a key (a revocation) are kept. Returns the number of files
 * changed; each is written atomically. Must not be called while checks use T. */
int trust_add(Trust *t, const char *prefix, const void *data, size_t size, const char *what, Error *e);

/* Checks the syntax of a fingerprint for trust_remove(). -EINVAL. */
int trust_fingerprint_check(const char *s, Error *e);
/* Removes the trust in the key FINGERPRINT (in full, or its last 16 digits or more; spaces are ignored) for
 * PREFIX ("": as a root key; NULL: for anything). Keys of the vendor are masked by empty files in the first
 * directory. *RET (or NULL) has a line for each file removed or created. -ENOENT: no such key. */
int trust_remove(Trust *t, const char *prefix, const char *fingerprint, char ***ret, Error *e);

/* --- Checking signatures (check.c, verdict.c) ---------------------------------------------------------- */

typedef struct Signer {
        char *fingerprint; /* of the primary key, upper case hex */
        char *user_id;
        char *prefix; /* by which it is trusted; "" for a root key */
        char *key;    /* fingerprint of the key that signed: the primary key or a subkey */
        char *stamp;  /* state of the files of the key at that time; NULL: unknown */
        uint64_t signed_usec;
        uint64_t expires_usec;     /* of the signature; 0: never */
        uint64_t key_expires_usec; /* of the key; 0: never */
} Signer;

void signer_done(Signer *s);
#define _cleanup_signer_ _cleanup_(signer_done)

/* A running check: gpg, and a thread that feeds it, a bounded distance behind the reader of the image. */
typedef struct SignatureCheck SignatureCheck;

/* SIGNATURE: one or several armored detached signatures (spec: aci.md, "Image Archives"). Signatures that
 * cannot become valid are refused here, before anything is downloaded: data that is not a signature, and
 * signatures none of which is by a key that is trusted for anything. WHAT names the signature in messages
 * ("the signature x.aci.asc"). */
int signature_check_new(Trust *t, const void *signature, size_t size, const char *what, SignatureCheck **ret,
                        Error *e);
/* Feeds the signed data, from its beginning to its end. Blocks if gpg is slower than the reader; errors are
 * reported by signature_check_finish(). Not from two threads at once. */
void signature_check_update(SignatureCheck *c, const void *data, size_t size);
/* To be called after all data. Succeeds if there is a good signature by a key that is trusted for an image
 * of this name; else the error has the reason for each signature, with its fingerprint: -ENOKEY if no key is
 * known, -EBADMSG if one is not of these bytes, else -EKEYREJECTED. RET may be NULL. */
int signature_check_finish(SignatureCheck *c, const char *image_name, Signer *ret, Error *e);
SignatureCheck *signature_check_free(SignatureCheck *c); /* stops and waits; may be called at any time */
DEFINE_TRIVIAL_CLEANUP_FUNC(SignatureCheck *, signature_check_free);

/* Whether a signature that was good once is still good for an image of this name (recall.c): the key is
 * still trusted for it, and neither of them has expired or was revoked. Unless the files of the key have
 * changed, no program is run for that. S: of signature_check_finish(). 1: it is good, but S is out of date,
 * to be replaced by *RET; 0: it is good; -EKEYREJECTED: it is not. */
int signer_check_again(const char *const *config_dirs, const char *image_name, const Signer *s,
                       const Operation *o, Signer *ret, Error *e);

/* --- Encrypted images (decrypt.c) ---------------------------------------------------------------------- */

/* Whether FD (seekable; its offset is kept) is an encrypted OpenPGP message, binary or armored. The
 * beginning of an image archive is never mistaken for one. */
bool is_encrypted(int fd);
/* The same for the first bytes of data; 32 are enough. */
bool is_encrypted_data(const void *data, size_t size) _pure_;

typedef struct Decryption Decryption;

/* Called with every byte that is read from FD, in order, including those after the end of the encrypted
 * message, from a thread of the decryption: signatures are of the encrypted file. */
typedef int (*DecryptionObserve)(const void *data, size_t size, void *userdata, Error *e);

/* Decrypts the binary message of FD, encrypted by AES with the passphrase in PASSPHRASE_FILE. *RET_FD is a
 * pipe with the plaintext; only decryption_finish() reports whether it was complete and authentic. FD must
 * outlive the decryption. O, or NULL: when it ends, so does the decryption. */
int decryption_new(int fd, const char *passphrase_file, const Operation *o, DecryptionObserve observe,
                   void *userdata, Decryption **ret, int *ret_fd, Error *e);
/* After the pipe was read to its end: waits for gpg and the rest of FD. -EKEYREJECTED: wrong passphrase;
 * -EBADMSG: altered, without integrity protection, truncated, with data after its end, no such message. If
 * reading the image failed as well, this is the cause. */
int decryption_finish(Decryption *d, Error *e);
Decryption *decryption_free(Decryption *d); /* stops and waits; whether the pipe is closed or open */
DEFINE_TRIVIAL_CLEANUP_FUNC(Decryption *, decryption_free);

/* --- Signing and encrypting (sign.c) ------------------------------------------------------------------- */

/* The armored detached signature of FD, by the secret key KEY_ID (a fingerprint, an address; NULL: gpg's
 * default) of the user; GNUPGHOME: the user's home directory of gpg, or NULL for the default. The user's
 * gpg-agent may prompt for a passphrase; one that was started for this is stopped. */
int sign_detached(const char *key_id, const char *gnupghome, int fd, const Operation *o, char **ret_armored,
                  Error *e);
/* Copies FD_IN to FD_OUT, encrypted by AES-256 with the passphrase in PASSPHRASE_FILE. */
int encrypt_symmetric(int fd_in, int fd_out, const char *passphrase_file, const Operation *o, Error *e);
