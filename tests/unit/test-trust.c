/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which signatures are accepted: trusted keys in files, and each reason to reject a signature. */

#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "prepare/prepare.h"
#include "prepare/trust/trust-internal.h"
#include "tests/unit/gpg-fixture.h"

static GpgFixture g; /* keys are made once */
static char good[41], other[41], expired[41], revoked[41], sub[41], subkey[41];

#define IMAGE "example.com/app"
#define CONTENT "the bytes of an image\n"

/* --- A configuration directory for each case ----------------------------------------------------------- */

typedef struct Config {
        Scratch scratch;
        const char *dirs[3];
        char etc[PATH_MAX + 8], lib[PATH_MAX + 8];
        Trust *trust;
        Error error;
} Config;

static int config_new(Config *c)
{
        *c = (Config){.scratch = SCRATCH_NULL};
        int r = scratch_new(&c->scratch);

        snprintf(c->etc, sizeof(c->etc), "%s/etc", c->scratch.path);
        snprintf(c->lib, sizeof(c->lib), "%s/lib", c->scratch.path);
        c->dirs[0] = c->etc;
        c->dirs[1] = c->lib;
        return r;
}

static void config_done(Config *c)
{
        trust_free(c->trust);
        error_done(&c->error);
        scratch_done(&c->scratch);
}

#define CONFIG(c)                                                                                           \
        _cleanup_(config_done) Config c;                                                                    \
        ASSERT_OK(config_new(&c))

static int reopen(Config *c)
{
        c->trust = trust_free(c->trust);
        return trust_open(c->dirs, NULL, &c->trust, &c->error);
}

/* Trusts the key NAME.key of the fixture for PREFIX (NULL: root). */
static int add(Config *c, const char *prefix, const char *name)
{
        char file[64];
        size_t n = 0;

        snprintf(file, sizeof(file), "%s.key", name);
        _cleanup_free_ char *key = gpg_fixture_read(&g, file, &n);
        if (!c->trust) {
                int r = reopen(c);
                if (r < 0)
                        return r;
        }
        return key ? trust_add(c->trust, prefix, key, n, "the key", &c->error) : -ENOENT;
}

/* Puts the key into the file itself, below TOP ("etc", "lib"). */
static int put(Config *c, const char *top, const char *prefix_directory, const char *fingerprint,
               const char *content, size_t n)
{
        char path[PATH_MAX + 256];

        snprintf(path, sizeof(path), "%s/%s/trustedkeys/%s", c->scratch.path, top, prefix_directory);
        int r = mkdir_p(path, 0755);
        _cleanup_close_ int fd = r < 0 ? r : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        char name[80];
        for (size_t i = 0; i <= strlen(fingerprint); i++)
                name[i] = fingerprint[i] >= 'A' && fingerprint[i] <= 'F' ? (char) (fingerprint[i] + 32)
                                                                         : fingerprint[i];
        return write_file_atomic_at(fd, name, content, n, 0644, false);
}

/* --- Checking ------------------------------------------------------------------------------------------ */

static int check_bytes(Config *c, const void *signature, size_t size, const void *data, size_t n,
                       const char *name, Signer *ret)
{
        _cleanup_(signature_check_freep) SignatureCheck *check = NULL;

        error_done(&c->error);
        int r = c->trust ? 0 : reopen(c);
        if (r >= 0)
                r = signature_check_new(c->trust, signature, size, "the signature", &check, &c->error);
        if (r < 0)
                return r;
        signature_check_update(check, data, n);
        return signature_check_finish(check, name, ret, &c->error);
}

/* The signature in the file NAME of the fixture, of CONTENT. */
static int check(Config *c, const char *file, const char *name)
{
        size_t n = 0;
        _cleanup_free_ char *signature = gpg_fixture_read(&g, file, &n);

        return signature ? check_bytes(c, signature, n, CONTENT, strlen(CONTENT), name, NULL) : -ENXIO;
}

/* Signs the fixture's file "content" with the options; to the file OUT. */
#define SIGN(out, ...)                                                                                      \
        (unlinkat(g.scratch.fd, out, 0),                                                                    \
         GPG(&g, "--output", gpg_path(&g, out), __VA_ARGS__, gpg_path(&g, "content")))

static int make_subkey(void)
{
        char command[PATH_MAX * 2 + 512];

        snprintf(command, sizeof(command),
                 "gpg --homedir '%s' --batch --with-colons --list-keys %s | sed -n "
                 "'s/^fpr:*\\([0-9A-F]*\\):.*/\\1/p' | tail -n 1 > '%s'",
                 g.home, sub, gpg_path(&g, "sub.sub"));
        if (GPG(&g, "--quick-add-key", sub, "ed25519", "sign", "0") != 0 ||
            GPG(&g, "--armor", "--output", gpg_path(&g, "sub.key"), "--export", sub) != 0 ||
            run_silently((const char *const[]){"sh", "-c", command, NULL}) != 0)
                return -EIO;
        _cleanup_free_ char *text = gpg_fixture_read(&g, "sub.sub", NULL);
        snprintf(subkey, sizeof(subkey), "%.40s", text ?: "");
        return strlen(subkey) == 40 && !streq(subkey, sub) ? 0 : -EIO;
}

static int make_revoked(void)
{
        char command[PATH_MAX * 2 + 512];

        snprintf(command, sizeof(command),
                 "sed 's/^:---/---/' '%s/openpgp-revocs.d/%s.rev' | gpg --homedir '%s' --batch --import",
                 g.home, revoked, g.home);
        if (SIGN("revoked.asc", "--armor", "-u", revoked, "--detach-sign") != 0 ||
            run_silently((const char *const[]){"sh", "-c", command, NULL}) != 0 ||
            renameat(g.scratch.fd, "revoked.key", g.scratch.fd, "unrevoked.key") < 0)
                return -EIO;
        return GPG(&g, "--armor", "--output", gpg_path(&g, "revoked.key"), "--export", revoked) ? -EIO : 0;
}

static int make_keys(void)
{
        const struct {
                const char *name;
                char *fingerprint;
                const char *time, *expire;
        } keys[] = {
                        {"good", good, "20200101T000000", "0"},
                        {"other", other, NULL, "0"},
                        {"expired", expired, "20200101T000000", "1d"},
                        {"revoked", revoked, NULL, "0"},
                        {"sub", sub, NULL, "0"},
        };
        int r = gpg_fixture_new(&g);

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(keys); i++) {
                const char *f = gpg_make_key(&g, keys[i].name, keys[i].time, keys[i].expire);
                if (!f)
                        return -EIO;
                memcpy(keys[i].fingerprint, f, 41);
        }
        if (r >= 0)
                r = scratch_file(&g.scratch, "content", CONTENT);
        if (r < 0 || SIGN("good.asc", "--armor", "-u", good, "--detach-sign") != 0 ||
            SIGN("other.asc", "--armor", "-u", other, "--detach-sign") != 0)
                return -EIO;
        r = make_revoked();
        return r < 0 ? r : make_subkey();
}

TEST(prefixes)
{
        ASSERT_TRUE(trust_prefix_covers("", "example.com/app"));
        ASSERT_TRUE(trust_prefix_covers("example.com", "example.com"));
        ASSERT_TRUE(trust_prefix_covers("example.com/app", "example.com/app"));
        ASSERT_TRUE(trust_prefix_covers("example.com/app", "example.com/app/x"));
        ASSERT_FALSE(trust_prefix_covers("example.com/app", "example.com/apple"));
        ASSERT_FALSE(trust_prefix_covers("example.com/app", "example.com"));
        ASSERT_FALSE(trust_prefix_covers("example.com", "example.com.evil/app"));
        ASSERT_FALSE(trust_prefix_covers("example.com/app", "example.org/app"));
}

TEST(good_signature)
{
        CONFIG(c);
        _cleanup_signer_ Signer s = {};
        size_t n = 0;
        _cleanup_free_ char *signature = gpg_fixture_read(&g, "good.asc", &n);

        ASSERT_EQ(add(&c, "example.com", "good"), 1);
        ASSERT_WORKS(c, check_bytes(&c, signature, n, CONTENT, strlen(CONTENT), IMAGE, &s));
        ASSERT_STREQ(s.fingerprint, good);
        ASSERT_STREQ(s.user_id, "good <good@example.com>");
        ASSERT_STREQ(s.prefix, "example.com");
        ASSERT_GT(s.signed_usec, 1700000000000000);
        /* The longest prefix is named; a root key is trusted for all. */
        ASSERT_EQ(add(&c, IMAGE, "good"), 1);
        signer_done(&s);
        ASSERT_WORKS(c, check_bytes(&c, signature, n, CONTENT, strlen(CONTENT), IMAGE, &s));
        ASSERT_STREQ(s.prefix, IMAGE);
        ASSERT_EQ(add(&c, NULL, "other"), 1);
        ASSERT_WORKS(c, check(&c, "other.asc", "example.org/x"));
}

TEST(c1_no_signature)
{
        CONFIG(c);
        static const char *const none[] = {
                        "",
                        "\n\n",
                        "nonsense",
                        "-----BEGIN PGP SIGNATURE-----\n",
                        "-----BEGIN PGP SIGNATURE-----\n\n-----END PGP SIGNATURE-----\n",
                        "-----BEGIN PGP SIGNATURE-----\n\n====\n-----END PGP SIGNATURE-----\n",
                        "-----BEGIN PGP SIGNATURE-----\n\nQUJD\n-----END PGP SIGNATURE-----\n",
                        "-----BEGIN PGP SIGNATURE-----\n\niQ==\n-----END PGP SIGNATURE-----\n"};

        ASSERT_EQ(add(&c, IMAGE, "good"), 1);
        for (size_t i = 0; i < ELEMENTSOF(none); i++) {
                ASSERT_FAILS(c, check_bytes(&c, none[i], strlen(none[i]), CONTENT, 3, IMAGE, NULL), -EBADMSG,
                             "Cannot use the signature");
                ASSERT_CONTAINS(c.error.hint, "gpg --armor --detach-sign");
        }
        _cleanup_free_ char *long_one = calloc(1, TRUST_SIGNATURE_MAX + 1);
        ASSERT_FAILS(c, check_bytes(&c, long_one, TRUST_SIGNATURE_MAX + 1, CONTENT, 3, IMAGE, NULL), -EFBIG,
                     "longer than");
}

TEST(c1_bad_signature)
{
        CONFIG(c);
        size_t n = 0;
        _cleanup_free_ char *signature = gpg_fixture_read(&g, "good.asc", &n);

        ASSERT_EQ(add(&c, IMAGE, "good"), 1);
        ASSERT_FAILS(c, check_bytes(&c, signature, n, "other bytes", 11, IMAGE, NULL), -EBADMSG, good);
        ASSERT_CONTAINS(c.error.message, "is bad");
        ASSERT_FAILS(c, check_bytes(&c, signature, n, CONTENT, strlen(CONTENT) - 1, IMAGE, NULL), -EBADMSG,
                     "is bad");
        ASSERT_FAILS(c, check_bytes(&c, signature, n, CONTENT "x", strlen(CONTENT) + 1, IMAGE, NULL),
                     -EBADMSG, "is bad");
        ASSERT_FAILS(c, check_bytes(&c, signature, n, "", 0, IMAGE, NULL), -EBADMSG, "is bad");
        /* The name must be given. */
        ASSERT_FAILS(c, check_bytes(&c, signature, n, "other bytes", 11, NULL, NULL), -EINVAL,
                     "without a name");
        ASSERT_FAILS(c, check_bytes(&c, signature, n, "other bytes", 11, "", NULL), -EINVAL,
                     "without a name");
}

/* Signed messages with embedded content, and signatures of texts. */
TEST(c1_other_forms)
{
        CONFIG(c);

        ASSERT_EQ(add(&c, IMAGE, "good"), 1);
        ASSERT_EQ(SIGN("inline.asc", "--armor", "-u", good, "--sign"), 0);
        ASSERT_FAILS(c, check(&c, "inline.asc", IMAGE), -EBADMSG, "something else than a PGP SIGNATURE");
        ASSERT_EQ(SIGN("clear.asc", "-u", good, "--clear-sign"), 0);
        ASSERT_FAILS(c, check(&c, "clear.asc", IMAGE), -EBADMSG, "something else than a PGP SIGNATURE");
        ASSERT_EQ(SIGN("text.asc", "--armor", "--textmode", "-u", good, "--detach-sign"), 0);
        ASSERT_FAILS(c, check(&c, "text.asc", IMAGE), -EBADMSG, "a signature of a text");
        ASSERT_EQ(SIGN("binary.sig", "-u", good, "--detach-sign"), 0);
        ASSERT_FAILS(c, check(&c, "binary.sig", IMAGE), -EBADMSG, "no armored signature");
        ASSERT_FAILS(c, check(&c, "good.key", IMAGE), -EBADMSG, "something else than a PGP SIGNATURE");

        /* An inline-signed message that calls itself a signature. */
        _cleanup_free_ char *text = gpg_fixture_read(&g, "inline.asc", NULL), *lie = NULL;
        char *inner = strchr(text, '\n');
        *strstr(inner, "-----END") = 0;
        ASSERT_OK(xasprintf(&lie, "-----BEGIN PGP SIGNATURE-----%s-----END PGP SIGNATURE-----\n", inner));
        ASSERT_FAILS(c, check_bytes(&c, lie, strlen(lie), CONTENT, strlen(CONTENT), IMAGE, NULL), -EBADMSG,
                     "data other than signatures");
}

TEST(c2_unknown_key)
{
        CONFIG(c);

        ASSERT_OK(reopen(&c));
        ASSERT_FAILS(c, check(&c, "good.asc", IMAGE), -ENOKEY, good);
        ASSERT_CONTAINS(c.error.message, "no such key is trusted");
        ASSERT_CONTAINS(c.error.hint, "acnspawn trust --prefix=");
        ASSERT_EQ(add(&c, IMAGE, "other"), 1);
        ASSERT_FAILS(c, check(&c, "good.asc", IMAGE), -ENOKEY, good);
}

TEST(c2_wrong_prefix)
{
        CONFIG(c);

        ASSERT_EQ(add(&c, "example.com/app", "good"), 1);
        ASSERT_WORKS(c, check(&c, "good.asc", "example.com/app"));
        ASSERT_WORKS(c, check(&c, "good.asc", "example.com/app/x"));
        ASSERT_FAILS(c, check(&c, "good.asc", "example.com/apple"), -EKEYREJECTED, good);
        ASSERT_CONTAINS(c.error.message, "only for 'example.com/app'");
        ASSERT_CONTAINS(c.error.message, "good <good@example.com>");
        ASSERT_CONTAINS(c.error.hint, "acnspawn trust --prefix=example.com/apple ");
        ASSERT_FAILS(c, check(&c, "good.asc", "example.com"), -EKEYREJECTED, good);
}

TEST(c2_expired_key)
{
        CONFIG(c);

        ASSERT_EQ(SIGN("expired.asc", "--armor", "--faked-system-time=20200101T010000!", "-u", expired,
                       "--detach-sign"),
                  0);
        ASSERT_EQ(add(&c, IMAGE, "expired"), 1);
        ASSERT_FAILS(c, check(&c, "expired.asc", IMAGE), -EKEYREJECTED, expired);
        ASSERT_CONTAINS(c.error.message, "the key has expired");
}

TEST(c2_revoked_key)
{
        CONFIG(c);

        ASSERT_EQ(add(&c, IMAGE, "revoked"), 1);
        ASSERT_FAILS(c, check(&c, "revoked.asc", IMAGE), -EKEYREJECTED, revoked);
        ASSERT_CONTAINS(c.error.message, "the key has been revoked");
        /* An older copy does not undo it. */
        ASSERT_EQ(add(&c, IMAGE, "unrevoked"), 0);
        ASSERT_FAILS(c, check(&c, "revoked.asc", IMAGE), -EKEYREJECTED, "the key has been revoked");
}

TEST(c2_expired_signature)
{
        CONFIG(c);

        ASSERT_EQ(SIGN("old.asc", "--armor", "--faked-system-time=20200101T010000!",
                       "--default-sig-expire=1d", "-u", good, "--detach-sign"),
                  0);
        ASSERT_EQ(add(&c, IMAGE, "good"), 1);
        ASSERT_FAILS(c, check(&c, "old.asc", IMAGE), -EKEYREJECTED, good);
        ASSERT_CONTAINS(c.error.message, "does not count any more, as it has expired");
}

TEST(c2_weak_digests)
{
        static const char *const digests[] = {"SHA1", "RIPEMD160", "MD5"};
        CONFIG(c);

        ASSERT_EQ(add(&c, IMAGE, "good"), 1);
        for (size_t i = 0; i < ELEMENTSOF(digests); i++) {
                if (SIGN("weak.asc", "--armor", "--allow-weak-digest-algos", "--digest-algo", digests[i],
                         "-u", good, "--detach-sign") != 0) {
                        fprintf(stderr, "gpg makes no signature with %s\n", digests[i]);
                        continue;
                }
                ASSERT_FAILS(c, check(&c, "weak.asc", IMAGE), -EKEYREJECTED, good);
                ASSERT_CONTAINS(c.error.message, "too weak");
        }
}

TEST(subkeys)
{
        CONFIG(c);
        _cleanup_signer_ Signer s = {};
        char user[64];
        size_t n = 0;

        snprintf(user, sizeof(user), "%s!", subkey);
        ASSERT_EQ(SIGN("sub.asc", "--armor", "-u", user, "--detach-sign"), 0);
        _cleanup_free_ char *signature = gpg_fixture_read(&g, "sub.asc", &n);
        ASSERT_EQ(add(&c, IMAGE, "sub"), 1);
        ASSERT_WORKS(c, check_bytes(&c, signature, n, CONTENT, strlen(CONTENT), IMAGE, &s));
        ASSERT_STREQ(s.fingerprint, sub); /* of the primary key */
        ASSERT_FAILS(c, check(&c, "sub.asc", "example.org/x"), -EKEYREJECTED, sub);
        ASSERT_CONTAINS(c.error.message, subkey);
}

/* One good one is enough; if there is none, all are named. */
TEST(several_signatures)
{
        CONFIG(c);
        _cleanup_free_ char *a = gpg_fixture_read(&g, "good.asc", NULL),
                            *b = gpg_fixture_read(&g, "other.asc", NULL);
        _cleanup_free_ char *both = NULL, *mixed = NULL;

        ASSERT_OK(xasprintf(&both, "%s%s", a, b));
        ASSERT_EQ(add(&c, IMAGE, "other"), 1);
        ASSERT_WORKS(c, check_bytes(&c, both, strlen(both), CONTENT, strlen(CONTENT), IMAGE, NULL));
        ASSERT_FAILS(c, check_bytes(&c, both, strlen(both), "x", 1, IMAGE, NULL), -EBADMSG, good);
        ASSERT_CONTAINS(c.error.message, other);
        ASSERT_FAILS(c, check_bytes(&c, both, strlen(both), CONTENT, strlen(CONTENT), "example.org/x", NULL),
                     -EKEYREJECTED, good);
        /* Of different digests, in one block. */
        ASSERT_EQ(SIGN("sha256.asc", "--armor", "--digest-algo", "SHA256", "-u", good, "--detach-sign"), 0);
        _cleanup_free_ char *sha256 = gpg_fixture_read(&g, "sha256.asc", NULL);
        ASSERT_OK(xasprintf(&mixed, "%s%s", sha256, b));
        ASSERT_WORKS(c, check_bytes(&c, mixed, strlen(mixed), CONTENT, strlen(CONTENT), IMAGE, NULL));
        ASSERT_EQ(SIGN("two.asc", "--armor", "-u", good, "-u", other, "--detach-sign"), 0);
        ASSERT_WORKS(c, check(&c, "two.asc", IMAGE));
}

/* --- What was good once -------------------------------------------------------------------------------- */

static int check_again(Config *c, const char *name, const Signer *s, Signer *ret)
{
        error_done(&c->error);
        return signer_check_again(c->dirs, name, s, NULL, ret, &c->error);
}

/* Checks the signature in the file, of CONTENT, and gives its signer. */
static int sign_in(Config *c, const char *file, Signer *ret)
{
        size_t n = 0;
        _cleanup_free_ char *signature = gpg_fixture_read(&g, file, &n);

        return check_bytes(c, signature, n, CONTENT, strlen(CONTENT), IMAGE, ret);
}

TEST(trust_that_ended)
{
        _cleanup_signer_ Signer s = {}, now = {};
        CONFIG(c);

        ASSERT_EQ(add(&c, IMAGE, "good"), 1);
        ASSERT_EQ(add(&c, NULL, "other"), 1);
        ASSERT_WORKS(c, sign_in(&c, "good.asc", &s));
        ASSERT_EQ(check_again(&c, IMAGE, &s, &now), 0); /* without gpg */
        ASSERT_EQ(check_again(&c, IMAGE "/x", &s, &now), 0);
        ASSERT_FAILS(c, check_again(&c, "example.com/apple", &s, &now), -EKEYREJECTED, good);
        ASSERT_CONTAINS(c.error.message, "The image example.com/apple was signed by the key");
        ASSERT_CONTAINS(c.error.message, "good <good@example.com>");
        ASSERT_CONTAINS(c.error.message, "trusted only for '" IMAGE "'");
        ASSERT_WORKS(c, trust_remove(c.trust, NULL, good, NULL, &c.error));
        ASSERT_FAILS(c, check_again(&c, IMAGE, &s, &now), -EKEYREJECTED, "is not trusted any more");
        ASSERT_CONTAINS(c.error.hint, "acnspawn trust --prefix=" IMAGE " KEYFILE");
        ASSERT_NULL(now.fingerprint);
        /* Again: the file has changed, so gpg checks it, and the record of the signer changes. */
        ASSERT_EQ(add(&c, "example.com", "good"), 1);
        ASSERT_EQ(check_again(&c, IMAGE, &s, &now), 1);
        ASSERT_STREQ(now.prefix, "example.com");
        ASSERT_STREQ(now.fingerprint, good);
        ASSERT_EQ(now.signed_usec, s.signed_usec);
        ASSERT_EQ(check_again(&c, IMAGE, &now, NULL), 0);
        ASSERT_OK(fchmodat(c.scratch.fd, "etc/trustedkeys", 0777, 0));
        ASSERT_FAILS(c, check_again(&c, IMAGE, &now, NULL), -EPERM,
                     "Cannot determine whether the signature");
}

TEST(keys_that_went_bad)
{
        _cleanup_signer_ Signer s = {}, now = {};
        CONFIG(c);

        ASSERT_EQ(add(&c, IMAGE, "unrevoked"), 1);
        ASSERT_WORKS(c, sign_in(&c, "revoked.asc", &s));
        ASSERT_EQ(check_again(&c, IMAGE, &s, &now), 0);
        /* Wherever its revocation lies. */
        ASSERT_EQ(add(&c, "example.org", "revoked"), 1);
        ASSERT_FAILS(c, check_again(&c, IMAGE, &s, &now), -EKEYREJECTED, revoked);
        ASSERT_CONTAINS(c.error.message, "which has been revoked");
        /* A key that has expired since it was checked, as if the check had been earlier. */
        ASSERT_EQ(add(&c, IMAGE, "expired"), 1);
        const Signer then = {.fingerprint = expired, .key = expired, .prefix = (char *) IMAGE};
        ASSERT_FAILS(c, check_again(&c, IMAGE, &then, &now), -EKEYREJECTED, expired);
        ASSERT_CONTAINS(c.error.message, "which has expired on 2020-01-02 00:00:00 UTC");
        ASSERT_CONTAINS(c.error.hint, "prolonged");
}

TEST(times_that_passed)
{
        _cleanup_signer_ Signer s = {}, now = {};
        CONFIG(c);

        ASSERT_EQ(add(&c, IMAGE, "sub"), 1);
        ASSERT_WORKS(c, sign_in(&c, "sub.asc", &s));
        ASSERT_STREQ(s.key, subkey);
        ASSERT_EQ(s.key_expires_usec, 0);
        s.key_expires_usec = 1; /* gpg is asked, and knows of a longer time */
        ASSERT_EQ(check_again(&c, IMAGE, &s, &now), 1);
        ASSERT_EQ(now.key_expires_usec, 0);
        ASSERT_STREQ(now.key, subkey);
        now.expires_usec = 1;
        ASSERT_FAILS(c, check_again(&c, IMAGE, &now, NULL), -EKEYREJECTED, "the signature has expired");
}

/* --- The files ----------------------------------------------------------------------------------------- */

TEST(vendor_and_masks)
{
        CONFIG(c);
        char path[PATH_MAX + 300];
        size_t n = 0;
        _cleanup_free_ char *key = gpg_fixture_read(&g, "good.key", &n);

        ASSERT_OK(put(&c, "lib", "prefix.d/example.com,app", good, key, n));
        ASSERT_WORKS(c, check(&c, "good.asc", IMAGE));
        /* An empty file of the administrator's hides it. */
        ASSERT_OK(put(&c, "etc", "prefix.d/example.com,app", good, "", 0));
        ASSERT_OK(reopen(&c));
        ASSERT_FAILS(c, check(&c, "good.asc", IMAGE), -ENOKEY, good);
        /* So does a symlink to /dev/null. */
        snprintf(path, sizeof(path), "%s/trustedkeys/prefix.d/example.com,app", c.etc);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_strv_free_ char **names = NULL;
        ASSERT_OK(list_names(fd, &names));
        ASSERT_EQ(strv_length(names), 1);
        ASSERT_OK(unlinkat(fd, names[0], 0));
        ASSERT_OK(symlinkat("/dev/null", fd, names[0]));
        ASSERT_OK(reopen(&c));
        ASSERT_FAILS(c, check(&c, "good.asc", IMAGE), -ENOKEY, good);
        /* Other prefixes and root keys are not touched by it. */
        ASSERT_OK(put(&c, "lib", "root.d", good, key, n));
        ASSERT_OK(reopen(&c));
        ASSERT_WORKS(c, check(&c, "good.asc", IMAGE));
        /* What is added replaces the link. */
        ASSERT_EQ(add(&c, IMAGE, "good"), 1);
        ASSERT_EQ(add(&c, IMAGE, "good"), 0);
        struct stat st;
        ASSERT_OK(fstatat(fd, names[0], &st, AT_SYMLINK_NOFOLLOW));
        ASSERT_TRUE(S_ISREG(st.st_mode));
}

/* A key is trusted by the name of its file; other contents of files have no effect. */
TEST(files_with_other_content)
{
        CONFIG(c);
        size_t n = 0, m = 0;
        _cleanup_free_ char *key = gpg_fixture_read(&g, "good.key", &n);
        _cleanup_free_ char *another = gpg_fixture_read(&g, "other.key", &m);
        _cleanup_trust_keys_ TrustKeys keys = {};
        _cleanup_strv_free_ char **strays = NULL;

        ASSERT_OK(put(&c, "etc", "root.d", other, key, n)); /* good's key under other's name */
        ASSERT_OK(put(&c, "etc", "root.d", "0000000000000000000000000000000000000000", "junk", 4));
        ASSERT_OK(put(&c, "etc", "root.d", "readme", "hello", 5));
        ASSERT_OK(put(&c, "etc", "prefix.d/Not A Prefix", other, another, m));
        ASSERT_OK(reopen(&c));
        ASSERT_FAILS(c, check(&c, "good.asc", IMAGE), -ENOKEY, good);
        ASSERT_CONTAINS(c.error.message, "no such key is trusted");
        ASSERT_FAILS(c, check(&c, "other.asc", IMAGE), -ENOKEY, other);
        ASSERT_WORKS(c, trust_list(c.trust, &keys, &strays, &c.error));
        ASSERT_EQ(keys.n, 2);
        ASSERT_CONTAINS(keys.items[0].problem, "no usable key");
        ASSERT_CONTAINS(keys.items[1].problem, "no usable key");
        ASSERT_EQ(strv_length(strays), 2);
        /* In binary, beside all this. */
        ASSERT_EQ(GPG(&g, "--output", gpg_path(&g, "binary.key"), "--export", good), 0);
        _cleanup_free_ char *binary = gpg_fixture_read(&g, "binary.key", &n);
        ASSERT_OK(put(&c, "lib", "root.d", good, binary, n));
        ASSERT_OK(reopen(&c));
        ASSERT_WORKS(c, check(&c, "good.asc", IMAGE));
}

TEST(list_and_remove)
{
        CONFIG(c);
        _cleanup_trust_keys_ TrustKeys keys = {};
        _cleanup_strv_free_ char **lines = NULL;
        _cleanup_free_ char *vendor = gpg_fixture_read(&g, "good.key", NULL);

        ASSERT_OK(put(&c, "lib", "prefix.d/example.com", good, vendor, strlen(vendor)));
        ASSERT_EQ(add(&c, IMAGE, "good"), 1);
        ASSERT_EQ(add(&c, NULL, "expired"), 1);
        ASSERT_WORKS(c, trust_list(c.trust, &keys, NULL, &c.error));
        ASSERT_EQ(keys.n, 3);
        ASSERT_STREQ(keys.items[0].prefix, "");
        ASSERT_STREQ(keys.items[0].fingerprint, expired);
        ASSERT_TRUE(keys.items[0].expired);
        ASSERT_EQ(keys.items[0].expires_usec - keys.items[0].created_usec, 86400000000);
        ASSERT_STREQ(keys.items[1].prefix, "example.com");
        ASSERT_STREQ(keys.items[2].prefix, IMAGE);
        ASSERT_STREQ(keys.items[2].algorithm, "ed25519");
        ASSERT_STREQ(keys.items[2].user_ids[0], "good <good@example.com>");

        ASSERT_FAILS(c, trust_remove(c.trust, NULL, "good", NULL, &c.error), -EINVAL, "not the fingerprint");
        ASSERT_FAILS(c, trust_remove(c.trust, NULL, good + 30, NULL, &c.error), -EINVAL,
                     "not the fingerprint");
        ASSERT_FAILS(c, trust_remove(c.trust, NULL, other, NULL, &c.error), -ENOENT, "for anything");
        ASSERT_FAILS(c, trust_remove(c.trust, "", good, NULL, &c.error), -ENOENT, "as a root key");
        ASSERT_FAILS(c, trust_remove(c.trust, "example.org", good, NULL, &c.error), -ENOENT,
                     "'example.org'");
        /* Everywhere, by its last digits; the vendor's is hidden. */
        ASSERT_WORKS(c, trust_remove(c.trust, NULL, good + 20, &lines, &c.error));
        ASSERT_EQ(strv_length(lines), 2);
        ASSERT_FAILS(c, check(&c, "good.asc", IMAGE), -ENOKEY, good);
        ASSERT_FAILS(c, trust_remove(c.trust, NULL, good, NULL, &c.error), -ENOENT, good);
        ASSERT_FALSE(scratch_has(&c.scratch, "etc/trustedkeys/prefix.d/example.com,app"));
}

/* C8: files that others could have written are not read. Each entry breaks one condition. */
TEST(c8_permissions)
{
        static const char *const places[] = {"etc", "etc/trustedkeys", "etc/trustedkeys/root.d",
                                             "etc/trustedkeys/prefix.d",
                                             "etc/trustedkeys/prefix.d/example.com,app"};
        CONFIG(c);
        char file[256];

        ASSERT_EQ(add(&c, IMAGE, "good"), 1);
        ASSERT_EQ(add(&c, NULL, "other"), 1);
        for (size_t i = 0; i < ELEMENTSOF(places); i++) {
                static const mode_t modes[] = {0777, 0775, 0757};
                for (size_t k = 0; k < ELEMENTSOF(modes); k++) {
                        ASSERT_OK(fchmodat(c.scratch.fd, places[i], modes[k], 0));
                        ASSERT_FAILS(c, reopen(&c), -EPERM, "can be written to by others");
                        ASSERT_CONTAINS(c.error.message, places[i]);
                        ASSERT_CONTAINS(c.error.hint, "chmod go-w");
                }
                ASSERT_OK(fchmodat(c.scratch.fd, places[i], 0755, 0));
                /* A symlink to a directory that is in order. */
                ASSERT_OK(renameat(c.scratch.fd, places[i], c.scratch.fd, "elsewhere"));
                ASSERT_OK(symlinkat(gpg_path(&(GpgFixture){.scratch = c.scratch}, "elsewhere"), c.scratch.fd,
                                    places[i]));
                ASSERT_FAILS(c, reopen(&c), -EPERM, "is a symlink");
                ASSERT_OK(unlinkat(c.scratch.fd, places[i], 0));
                ASSERT_OK(renameat(c.scratch.fd, "elsewhere", c.scratch.fd, places[i]));
                if (geteuid() != 0)
                        continue;
                ASSERT_OK(fchownat(c.scratch.fd, places[i], 1000, 0, 0));
                ASSERT_FAILS(c, reopen(&c), -EPERM, "belongs to user 1000");
                ASSERT_OK(fchownat(c.scratch.fd, places[i], 0, 0, 0));
        }
        /* The file itself. */
        _cleanup_close_ int fd = openat(c.scratch.fd, places[4], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_strv_free_ char **names = NULL;
        ASSERT_OK(list_names(fd, &names));
        snprintf(file, sizeof(file), "%s", names[0]);
        ASSERT_OK(fchmodat(fd, file, 0664, 0));
        ASSERT_FAILS(c, reopen(&c), -EPERM, "can be written to by others");
        ASSERT_OK(fchmodat(fd, file, 0644, 0));
        ASSERT_OK(renameat(fd, file, c.scratch.fd, "key"));
        ASSERT_OK(symlinkat("../../../../key", fd, file));
        ASSERT_FAILS(c, reopen(&c), -EPERM, "is a symlink");
        ASSERT_OK(unlinkat(fd, file, 0));
        ASSERT_OK(mkfifoat(fd, file, 0644)); /* is not waited for */
        ASSERT_FAILS(c, reopen(&c), -EPERM, "not a regular file");
        ASSERT_OK(unlinkat(fd, file, 0));
        ASSERT_OK(reopen(&c));
}

/* --- Adding -------------------------------------------------------------------------------------------- */

TEST(inspect)
{
        CONFIG(c);
        _cleanup_trust_keys_ TrustKeys keys = {};
        size_t n = 0;
        _cleanup_free_ char *a = gpg_fixture_read(&g, "good.key", NULL),
                            *b = gpg_fixture_read(&g, "expired.key", NULL);
        _cleanup_free_ char *both = NULL;

        ASSERT_OK(xasprintf(&both, "Some words\n%s\n%s\n", a, b));
        ASSERT_WORKS(c, trust_inspect_key(both, strlen(both), "it", NULL, &keys, &c.error));
        ASSERT_EQ(keys.n, 2);
        ASSERT_EQ(trust_add(reopen(&c) < 0 ? NULL : c.trust, NULL, both, strlen(both), "it", &c.error), 2);

        ASSERT_FAILS(c, trust_inspect_key("x", 1, "it", NULL, &keys, &c.error), -EBADMSG, "Cannot use it");
        ASSERT_FAILS(c, trust_inspect_key("", 0, "it", NULL, &keys, &c.error), -EBADMSG, "no public key");
        ASSERT_EQ(GPG(&g, "--armor", "--output", gpg_path(&g, "secret"), "--export-secret-keys", good), 0);
        _cleanup_free_ char *secret = gpg_fixture_read(&g, "secret", &n);
        ASSERT_FAILS(c, trust_inspect_key(secret, n, "it", NULL, &keys, &c.error), -EINVAL, "private key");
        ASSERT_CONTAINS(c.error.hint, "gpg --armor --export");
        free(secret);
        ASSERT_EQ(GPG(&g, "--output", gpg_path(&g, "secret"), "--export-secret-keys", good), 0);
        secret = gpg_fixture_read(&g, "secret", &n);
        ASSERT_FAILS(c, trust_inspect_key(secret, n, "it", NULL, &keys, &c.error), -EINVAL, "private key");
        _cleanup_free_ char *signature = gpg_fixture_read(&g, "good.asc", &n);
        ASSERT_FAILS(c, trust_inspect_key(signature, n, "it", NULL, &keys, &c.error), -EBADMSG,
                     "something else");
        ASSERT_FAILS(c, trust_inspect_key(a, strlen(a) / 2, "it", NULL, &keys, &c.error), -EBADMSG,
                     "damaged");
        _cleanup_free_ char *huge = calloc(1, TRUST_KEY_FILE_MAX + 1);
        ASSERT_FAILS(c, trust_inspect_key(huge, TRUST_KEY_FILE_MAX + 1, "it", NULL, &keys, &c.error), -EFBIG,
                     "longer than");
        ASSERT_FAILS(c, trust_add(c.trust, "Example.com/../x", a, strlen(a), "it", &c.error), -EINVAL,
                     "prefix 'Example.com/../x'");
}

/* Temporary files of a killed writer are neither read nor kept. */
TEST(leftovers_of_writers)
{
        CONFIG(c);
        _cleanup_strv_free_ char **strays = NULL;
        _cleanup_trust_keys_ TrustKeys keys = {};

        ASSERT_OK(put(&c, "etc", "prefix.d/example.com,app", "0123.7-1.tmp", "half", 4));
        ASSERT_OK(put(&c, "etc", "prefix.d/example.org", "0123.7-1.tmp", "half", 4));
        ASSERT_OK(put(&c, "etc", "root.d", "0123.7-1.tmp", "half", 4));
        ASSERT_EQ(add(&c, IMAGE, "good"), 1);
        ASSERT_WORKS(c, trust_list(c.trust, &keys, &strays, &c.error));
        ASSERT_EQ(keys.n, 1);
        ASSERT_EQ(strv_length(strays), 0);
        ASSERT_FALSE(scratch_has(&c.scratch, "etc/trustedkeys/prefix.d/example.com,app/0123.7-1.tmp"));
        ASSERT_FALSE(scratch_has(&c.scratch, "etc/trustedkeys/prefix.d/example.org")); /* it has no keys */
        ASSERT_FALSE(scratch_has(&c.scratch, "etc/trustedkeys/root.d/0123.7-1.tmp"));
}

/* All users can open the directories. */
TEST(a_lock_of_others_is_not_waited_for)
{
        CONFIG(c);
        struct stat st;

        ASSERT_EQ(add(&c, IMAGE, "good"), 1);
        _cleanup_close_ int fd = openat(c.scratch.fd, "etc/trustedkeys", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ASSERT_EQ(flock(fd, LOCK_EX), 0);
        alarm(60);
        ASSERT_EQ(add(&c, IMAGE, "other"), 1);
        alarm(0);
        ASSERT_EQ(fstatat(fd, ".lock", &st, 0), 0);
        ASSERT_EQ(st.st_mode & 0777U, 0600U);
}

#define N_HOME_PROCESSES 6
#define N_HOMES 150

/* Exits with 0, or 1 if a home could not be made. */
static void make_homes(const char *base)
{
        if (setenv("XDG_RUNTIME_DIR", base, 1) < 0 || (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0))
                _exit(1);
        for (unsigned i = 0; i < N_HOMES; i++) {
                GpgHome h = GPG_HOME_NULL;
                Error e = ERROR_NULL;

                if (gpg_home_new(NULL, &h, &e) < 0) {
                        fprintf(stderr, "%s\n", e.message);
                        _exit(1);
                }
                gpg_home_done(&h);
        }
        _exit(0);
}

/* Each process removes stale homes of others, and must not fail if one of its own was removed before it was locked. */
TEST(homes_of_many_processes)
{
        _cleanup_(scratch_done) Scratch s = SCRATCH_NULL;
        pid_t pids[N_HOME_PROCESSES];
        unsigned n_failed = 0;

        ASSERT_OK(scratch_new(&s));
        ASSERT_TRUE(fchmod(s.fd, 01777) >= 0);
        for (unsigned i = 0; i < N_HOME_PROCESSES; i++) {
                pids[i] = fork();
                if (pids[i] == 0)
                        make_homes(s.path);
        }
        for (unsigned i = 0; i < N_HOME_PROCESSES; i++) {
                int status;

                if (pids[i] < 0 || waitpid(pids[i], &status, 0) < 0 || status != 0)
                        n_failed++;
        }
        ASSERT_EQ(n_failed, 0);
}

/* A check that is cancelled, and one of large content: the thread keeps up, and ends. */
TEST(streams)
{
        CONFIG(c);
        size_t n = 0, size = 5 << 20;
        _cleanup_(signature_check_freep) SignatureCheck *check = NULL;
        _cleanup_free_ char *data = malloc(size);

        for (size_t i = 0; i < size; i++)
                data[i] = (char) (i * 7 + (i >> 9));
        ASSERT_OK(write_file_atomic_at(g.scratch.fd, "large", data, size, 0644, false));
        ASSERT_EQ(GPG(&g, "--armor", "--output", gpg_path(&g, "large.asc"), "-u", good, "--detach-sign",
                      gpg_path(&g, "large")),
                  0);
        _cleanup_free_ char *signature = gpg_fixture_read(&g, "large.asc", &n);
        ASSERT_EQ(add(&c, IMAGE, "good"), 1);
        ASSERT_WORKS(c, check_bytes(&c, signature, n, data, size, IMAGE, NULL));
        ASSERT_WORKS(c, signature_check_new(c.trust, signature, n, "it", &check, &c.error));
        for (size_t i = 0, step; i < size; i += step) { /* in pieces of all sizes */
                step = MIN(size - i, (i * 13) % 200000 + 1);
                signature_check_update(check, data + i, step);
        }
        ASSERT_WORKS(c, signature_check_finish(check, IMAGE, NULL, &c.error));
        check = signature_check_free(check);
        ASSERT_WORKS(c, signature_check_new(c.trust, signature, n, "it", &check, &c.error));
        signature_check_update(check, data, size / 2);
}

int main(void)
{
        if (run_silently((const char *const[]){"gpg", "--version", NULL}) != 0) {
                printf("SKIP: the program gpg is missing\n");
                return 77;
        }
        int r = make_keys();
        if (r < 0) {
                printf("not ok make_keys: %s\n", strerror(-r));
                return 1;
        }
        RUN(prefixes);
        RUN(good_signature);
        RUN(c1_no_signature);
        RUN(c1_bad_signature);
        RUN(c1_other_forms);
        RUN(c2_unknown_key);
        RUN(c2_wrong_prefix);
        RUN(c2_expired_key);
        RUN(c2_revoked_key);
        RUN(c2_expired_signature);
        RUN(c2_weak_digests);
        RUN(subkeys);
        RUN(several_signatures);
        RUN(trust_that_ended);
        RUN(keys_that_went_bad);
        RUN(times_that_passed);
        RUN(vendor_and_masks);
        RUN(files_with_other_content);
        RUN(list_and_remove);
        RUN(c8_permissions);
        RUN(inspect);
        RUN(leftovers_of_writers);
        RUN(a_lock_of_others_is_not_waited_for);
        RUN(homes_of_many_processes);
        RUN(streams);
        gpg_fixture_done(&g);
        return TEST_END();
}
