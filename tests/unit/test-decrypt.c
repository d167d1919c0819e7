/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Encrypted images: decrypting, and each reason to refuse them; signing and encrypting. */

#include <sys/stat.h>

#include "prepare/prepare.h"
#include "tests/unit/gpg-fixture.h"

static GpgFixture g;

#define PLAIN_SIZE 300000U
#define PASSPHRASE "correct horse"

/* --- Decrypting ---------------------------------------------------------------------------------------- */

typedef struct Result {
        Error error;
        char *plain;
        size_t size, n_observed;
        int r;
} Result;

static void result_done(Result *r)
{
        error_done(&r->error);
        free(r->plain);
}
#define _cleanup_result_ _cleanup_(result_done)

static int observe(const void *data, size_t size, void *userdata, Error *e)
{
        ((Result *) userdata)->n_observed += size;
        return 0;
}

static void decrypt_fd(Result *ret, int fd, const char *passphrase_file)
{
        _cleanup_(decryption_freep) Decryption *d = NULL;
        _cleanup_close_ int plain = -EBADF;

        *ret = (Result){.plain = malloc(2 * PLAIN_SIZE)};
        ret->r = decryption_new(fd, passphrase_file, NULL, observe, ret, &d, &plain, &ret->error);
        if (ret->r < 0)
                return;
        ssize_t n = loop_read(plain, ret->plain, 2 * PLAIN_SIZE);
        ret->size = n < 0 ? 0 : (size_t) n;
        ret->r = decryption_finish(d, &ret->error);
}

static void decrypt(Result *ret, const char *file, const char *passphrase_file)
{
        _cleanup_close_ int fd = openat(g.scratch.fd, file, O_RDONLY | O_CLOEXEC);

        decrypt_fd(ret, fd, gpg_path(&g, passphrase_file));
}

#define ASSERT_REFUSED(file, passphrase, code, why)                                                         \
        do {                                                                                                \
                _cleanup_result_ Result r_;                                                                 \
                decrypt(&r_, (file), (passphrase));                                                         \
                if (r_.r != (code))                                                                         \
                        TEST_FAIL("%s: %d: %s", (file), r_.r, r_.error.message ?: "");                      \
                ASSERT_CONTAINS(r_.error.message, (why));                                                   \
        } while (0)

static int add_to(const char *file, const char *from, const void *data, size_t n)
{
        size_t size = 0;
        _cleanup_free_ char *content = gpg_fixture_read(&g, from, &size);
        _cleanup_text_ Text t = {};

        text_add_bytes(&t, content, size);
        text_add_bytes(&t, data, n);
        return t.failed ? -ENOMEM : write_file_atomic_at(g.scratch.fd, file, t.data, t.size, 0644, false);
}

#define ENCRYPT(out, ...)                                                                                   \
        GPG(&g, "--output", gpg_path(&g, out), "--passphrase", PASSPHRASE, __VA_ARGS__,                     \
            gpg_path(&g, "plain"))

static int make_files(void)
{
        _cleanup_free_ char *plain = malloc(PLAIN_SIZE);
        uint32_t x = 1;

        int r = gpg_fixture_new(&g);
        if (r < 0)
                return r;
        for (size_t i = 0; i < PLAIN_SIZE; i++) {
                x = x * 1103515245 + 12345;
                plain[i] = (char) (x >> 16);
        }
        r = write_file_atomic_at(g.scratch.fd, "plain", plain, PLAIN_SIZE, 0644, false);
        if (r >= 0)
                r = write_file_atomic_at(g.scratch.fd, "right", PASSPHRASE "\n", strlen(PASSPHRASE) + 1,
                                         0600, false);
        if (r >= 0)
                r = write_file_atomic_at(g.scratch.fd, "wrong", PASSPHRASE "s", strlen(PASSPHRASE) + 1, 0600,
                                         false);
        if (r < 0)
                return r;
        return ENCRYPT("good.gpg", "--cipher-algo", "AES256", "--digest-algo", "sha256", "--symmetric")
                               ? -EIO
                               : 0;
}

TEST(decrypts)
{
        _cleanup_result_ Result r;
        size_t n = 0, m = 0;
        _cleanup_free_ char *plain = gpg_fixture_read(&g, "plain", &n),
                            *file = gpg_fixture_read(&g, "good.gpg", &m);

        ASSERT_TRUE(file);
        decrypt(&r, "good.gpg", "right");
        if (r.r < 0)
                TEST_FAIL("%s", r.error.message);
        ASSERT_EQ(r.size, n);
        ASSERT_MEMEQ(r.plain, plain, n);
        ASSERT_EQ(r.n_observed, m); /* what is signed is the encrypted file */
}

TEST(recognized)
{
        static const char *const others[] = {"",
                                             "\x1f\x8b\x08\x00\x00\x00\x00\x00",
                                             "BZh91AY&",
                                             "\xfd\x37zXZ\x00\x00\x04",
                                             "\x28\xb5\x2f\xfd\x04\x00\x00\x00",
                                             "manifest",
                                             "rootfs/x"};
        size_t n;

        for (size_t i = 0; i < ELEMENTSOF(others); i++)
                ASSERT_FALSE(is_encrypted_data(others[i], i == 0 ? 0 : 8));
        _cleanup_free_ char *file = gpg_fixture_read(&g, "good.gpg", &n);
        ASSERT_TRUE(is_encrypted_data(file, 32));
        _cleanup_close_ int fd = openat(g.scratch.fd, "good.gpg", O_RDONLY | O_CLOEXEC);
        ASSERT_TRUE(is_encrypted(fd));
        ASSERT_EQ(lseek(fd, 0, SEEK_CUR), 0);
        _cleanup_close_ int plain = openat(g.scratch.fd, "plain", O_RDONLY | O_CLOEXEC);
        ASSERT_FALSE(is_encrypted(plain));
}

TEST(wrong_passphrase)
{
        ASSERT_REFUSED("good.gpg", "wrong", -EKEYREJECTED, "the passphrase is wrong");
}

TEST(altered)
{
        size_t n = 0;
        _cleanup_free_ char *file = gpg_fixture_read(&g, "good.gpg", &n);
        static const size_t places[] = {100, 1000, 150000, 299000};

        for (size_t i = 0; i < ELEMENTSOF(places); i++) {
                file[places[i]] ^= 1;
                ASSERT_OK(write_file_atomic_at(g.scratch.fd, "altered", file, n, 0644, false));
                file[places[i]] ^= 1;
                _cleanup_result_ Result r;
                decrypt(&r, "altered", "right");
                ASSERT_TRUE(r.r == -EBADMSG || r.r == -EKEYREJECTED);
        }
        file[n - 1] ^= 1;
        ASSERT_OK(write_file_atomic_at(g.scratch.fd, "altered", file, n, 0644, false));
        ASSERT_REFUSED("altered", "right", -EBADMSG, "has been altered");
        for (size_t i = 1; i < n; i = i * 3 + 1) {
                ASSERT_OK(write_file_atomic_at(g.scratch.fd, "altered", file, n - i, 0644, false));
                ASSERT_REFUSED("altered", "right", -EBADMSG, "Cannot decrypt the image");
        }
        ASSERT_OK(write_file_atomic_at(g.scratch.fd, "altered", file, 40, 0644, false));
        ASSERT_REFUSED("altered", "right", -EBADMSG, "ends in the middle");
}

TEST(something_behind)
{
        size_t n = 0;
        _cleanup_free_ char *file = gpg_fixture_read(&g, "good.gpg", &n), *big = calloc(1, 3 << 20);

        ASSERT_OK(add_to("behind", "good.gpg", "x", 1));
        ASSERT_REFUSED("behind", "right", -EBADMSG, "data after");
        ASSERT_OK(add_to("behind", "good.gpg", file, n)); /* the same once more */
        ASSERT_REFUSED("behind", "right", -EBADMSG, "data after");
        ASSERT_OK(add_to("behind", "good.gpg", big, 3 << 20));
        ASSERT_REFUSED("behind", "right", -EBADMSG, "data after");
}

TEST(other_messages)
{
        ASSERT_REFUSED("plain", "right", -EBADMSG, "Cannot decrypt the image");
        ASSERT_OK(scratch_file(&g.scratch, "empty", ""));
        ASSERT_REFUSED("empty", "right", -EBADMSG, "not encrypted");
        ASSERT_OK(scratch_file(&g.scratch, "text", "manifest and so on, no image\n"));
        ASSERT_REFUSED("text", "right", -EBADMSG, "not OpenPGP data");
        ASSERT_EQ(ENCRYPT("stored", "--store"), 0);
        ASSERT_REFUSED("stored", "right", -EBADMSG, "not encrypted by a passphrase");
        ASSERT_EQ(ENCRYPT("armored", "--armor", "--symmetric"), 0);
        ASSERT_REFUSED("armored", "right", -EBADMSG, "it is armored");
        _cleanup_close_ int fd = openat(g.scratch.fd, "armored", O_RDONLY | O_CLOEXEC);
        ASSERT_TRUE(is_encrypted(fd));
        ASSERT_EQ(ENCRYPT("cast5", "--cipher-algo", "CAST5", "--symmetric"), 0);
        ASSERT_REFUSED("cast5", "right", -EBADMSG, "encrypted by CAST5");
        if (ENCRYPT("no-mdc", "--rfc2440", "--cipher-algo", "AES256", "--symmetric") == 0)
                ASSERT_REFUSED("no-mdc", "right", -EBADMSG, "integrity protection");
        ASSERT_EQ(GPG(&g, "--quick-gen-key", "a <a@example.com>", "rsa2048", "encr", "0"), 0);
        ASSERT_EQ(GPG(&g, "--output", gpg_path(&g, "public"), "--trust-model=always", "-r", "a@example.com",
                      "--encrypt", gpg_path(&g, "plain")),
                  0);
        ASSERT_REFUSED("public", "right", -EBADMSG, "public key");
}

TEST(passphrase_files)
{
        static const struct {
                const char *content;
                mode_t mode;
                int error;
                const char *why;
        } files[] = {
                        {PASSPHRASE, 0640, -EPERM, "open to others (mode 0640)"},
                        {PASSPHRASE, 0604, -EPERM, "open to others"},
                        {"", 0600, -EINVAL, "no passphrase"},
                        {"\n", 0600, -EINVAL, "no passphrase"},
                        {"two\nlines\n", 0600, -EINVAL, "more than one line"},
        };
        static char long_one[TRUST_PASSPHRASE_MAX + 2];

        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                ASSERT_OK(write_file_atomic_at(g.scratch.fd, "pass", files[i].content,
                                               strlen(files[i].content), files[i].mode, false));
                ASSERT_REFUSED("good.gpg", "pass", files[i].error, files[i].why);
        }
        memset(long_one, 'x', sizeof(long_one) - 1);
        ASSERT_OK(write_file_atomic_at(g.scratch.fd, "pass", long_one, sizeof(long_one) - 1, 0600, false));
        ASSERT_REFUSED("good.gpg", "pass", -EFBIG, "longer than");
        ASSERT_REFUSED("good.gpg", "missing", -ENOENT, "missing");
        ASSERT_REFUSED("good.gpg", "home", -EINVAL, "not a regular file");
}

/* Cancelled in the middle, with and without a reader. */
TEST(given_up)
{
        _cleanup_error_ Error e = ERROR_NULL;

        for (unsigned i = 0; i < 2; i++) {
                _cleanup_(decryption_freep) Decryption *d = NULL;
                _cleanup_close_ int fd = openat(g.scratch.fd, "good.gpg", O_RDONLY | O_CLOEXEC),
                                    plain = -EBADF;
                char some[1000];
                ASSERT_OK(decryption_new(fd, gpg_path(&g, "right"), NULL, NULL, NULL, &d, &plain, &e));
                ASSERT_EQ(loop_read(plain, some, sizeof(some)), sizeof(some));
                if (i == 0)
                        plain = safe_close(plain);
        }
        /* And while nothing comes. */
        int pipe_fds[2];
        ASSERT_OK(pipe2(pipe_fds, O_CLOEXEC));
        Decryption *d = NULL;
        _cleanup_close_ int plain = -EBADF;
        ASSERT_OK(decryption_new(pipe_fds[0], gpg_path(&g, "right"), NULL, NULL, NULL, &d, &plain, &e));
        d = decryption_free(d);
        close(pipe_fds[0]);
        close(pipe_fds[1]);
}

TEST(encrypts)
{
        _cleanup_close_ int in = openat(g.scratch.fd, "plain", O_RDONLY | O_CLOEXEC);
        _cleanup_close_ int out = openat(g.scratch.fd, "ours", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_result_ Result r = {};

        int k = encrypt_symmetric(in, out, gpg_path(&g, "right"), NULL, &e);
        if (k < 0)
                TEST_FAIL("%s", e.message);
        ASSERT_OK(lseek(out, 0, SEEK_SET));
        ASSERT_TRUE(is_encrypted(out));
        decrypt(&r, "ours", "right");
        ASSERT_OK(r.r);
        ASSERT_EQ(r.size, PLAIN_SIZE);
        /* As gpg itself sees it. */
        ASSERT_EQ(GPG(&g, "--passphrase", PASSPHRASE, "--output", gpg_path(&g, "back"), "--decrypt",
                      gpg_path(&g, "ours")),
                  0);
        ASSERT_ERR(encrypt_symmetric(in, out, gpg_path(&g, "missing"), NULL, &e), -ENOENT);
}

TEST(signs)
{
        _cleanup_close_ int fd = openat(g.scratch.fd, "plain", O_RDONLY | O_CLOEXEC);
        _cleanup_error_ Error e = ERROR_NULL;
        _cleanup_free_ char *armored = NULL;
        char socket[PATH_MAX + 64];

        ASSERT_TRUE(gpg_make_key(&g, "signer", NULL, "0") != NULL);
        ASSERT_EQ(run_silently((const char *const[]){"gpgconf", "--homedir", g.home, "--kill", "all", NULL}),
                  0);
        int r = sign_detached("signer@example.com", g.home, fd, NULL, &armored, &e);
        if (r < 0)
                TEST_FAIL("%s", e.message);
        ASSERT_CONTAINS(armored, "-----BEGIN PGP SIGNATURE-----");
        ASSERT_OK(scratch_file(&g.scratch, "plain.asc", armored));
        ASSERT_EQ(GPG(&g, "--verify", gpg_path(&g, "plain.asc"), gpg_path(&g, "plain")), 0);
        /* The agent that was started for it is gone. */
        ASSERT_EQ(run_silently((const char *const[]){"gpgconf", "--homedir", g.home, "--kill", "all", NULL}),
                  0);
        ASSERT_OK(lseek(fd, 0, SEEK_SET));
        armored = (free(armored), NULL);
        ASSERT_OK(sign_detached("signer@example.com", g.home, fd, NULL, &armored, &e));
        snprintf(socket, sizeof(socket), "%s/S.gpg-agent", g.home);
        ASSERT_TRUE(WAIT_FOR(access(socket, F_OK) < 0));
        ASSERT_ERR(sign_detached("nobody@example.com", g.home, fd, NULL, &armored, &e), -ENOKEY);
        ASSERT_CONTAINS(e.message, "no such secret key");
        ASSERT_CONTAINS(e.hint, "gpg --list-secret-keys");
}

int main(void)
{
        if (run_silently((const char *const[]){"gpg", "--version", NULL}) != 0) {
                printf("SKIP: the program gpg is missing\n");
                return 77;
        }
        int r = make_files();
        if (r < 0) {
                printf("not ok make_files: %s\n", strerror(-r));
                return 1;
        }
        RUN(decrypts);
        RUN(recognized);
        RUN(wrong_passphrase);
        RUN(altered);
        RUN(something_behind);
        RUN(other_messages);
        RUN(passphrase_files);
        RUN(given_up);
        RUN(encrypts);
        RUN(signs);
        gpg_fixture_done(&g);
        return TEST_END();
}
