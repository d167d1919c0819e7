/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Each allocation fails once, in the records of the store, the configuration of a pod, and what an app asks to be added:
 * see allocations.h. What is written is there as a whole after a success, and not at all after a failure. */

#include "prepare/fetch/fetch-internal.h"
#include "prepare/pods/pods-internal.h"
#include "prepare/prepare.h"
#include "prepare/unpack/record.h"
#include "schema/schema-internal.h"
#include "tests/unit/allocations.h"
#include "tests/unit/schema.h"
#include "tests/unit/store-fixture.h"

static void add_pairs(Text *t, const PairList *l)
{
        for (size_t i = 0; i < l->n; i++)
                text_addf(t, "%s=%s ", l->items[i].name, l->items[i].value);
}

/* --- Records of files ---------------------------------------------------------------------------------- */

static int parse_record_line(void *userdata, Text *result, Error *e)
{
        _cleanup_free_ char *line = strdup(userdata);
        RecordEntry x;

        if (!line)
                return error_oom(e);
        int r = record_line_parse(line, &x);
        if (r < 0)
                return without_message(r, e);
        record_line_format(result, &x);
        return 0;
}

TEST(record_line)
{
        _cleanup_text_ Text t = {};

        record_line_format(&t, &(RecordEntry){.path = "a b\n",
                                              .mode = S_IFREG | 0644,
                                              .size = 5,
                                              .hash = HEX64,
                                              .first = 0});
        ASSERT_FALSE(t.failed);
        t.data[t.size - 1] = 0;
        for_each_failing_allocation(parse_record_line, t.data);
}

/* --- Pods ---------------------------------------------------------------------------------------------- */

static int parse_config(void *userdata, Text *result, Error *e)
{
        _cleanup_(pod_config_done) PodConfig c = {};
        _cleanup_free_ char *text = NULL;
        const char *s = userdata;

        int r = pod_config_parse(s, strlen(s), &c, e);
        if (r >= 0)
                r = pod_config_format(&c, &text, e);
        text_add(result, text ?: "");
        return r;
}

TEST(pod_config)
{
        static char *networks[] = {(char *) "a", (char *) "b:IP=10.0.0.1", NULL},
                    *dns[] = {(char *) "10.0.0.1", NULL}, *search[] = {(char *) "example.com", NULL},
                    *hosts[] = {(char *) "10.0.0.1=a", NULL};
        const PodConfig c = {.name = (char *) "web",
                             .hostname = (char *) "web",
                             .uid_base = 65536,
                             .n_uid_ranges = 1,
                             .private_users = true,
                             .net = NET_NETWORKS,
                             .networks = networks,
                             .dns = dns,
                             .dns_search = search,
                             .hosts_entries = hosts,
                             .stop_timeout_usec = 10000000,
                             .created_usec = 1,
                             .capabilities = 1};
        _cleanup_free_ char *text = NULL;

        _cleanup_error_ Error why = ERROR_NULL;
        if (pod_config_format(&c, &text, &why) < 0)
                TEST_FAIL("%s", why.message ?: "");
        allocations_spare_json = true;
        for_each_failing_allocation(parse_config, text);
        allocations_spare_json = false;
}

static int parse_request(void *userdata, Text *result, Error *e)
{
        _cleanup_(pod_definition_done) PodDefinition d = {};
        _cleanup_json_ json_object *o = NULL, *again = NULL;
        _cleanup_free_ char *text = NULL;
        const char *s = userdata;

        int r = json_parse_strict(s, strlen(s), &o, NULL, e);
        if (r >= 0)
                r = app_request_parse(o, &d, e);
        if (r >= 0)
                r = app_request_format(&d.request, &again, e);
        if (r >= 0)
                r = without_message(json_format(again, &text), e);
        text_add(result, text ?: "");
        return r;
}

static int format_request(const PodRequest *q, char **ret)
{
        _cleanup_json_ json_object *o = NULL;
        int r = app_request_format(q, &o, NULL);

        return r < 0 ? r : json_format(o, ret);
}

TEST(app_request)
{
        static char *exec[] = {(char *) "/bin/x", (char *) "y", NULL};
        Pair environment[] = {{(char *) "A", (char *) "b"}},
             annotations[] = {{(char *) "acnspawn/restart", (char *) "always"}};
        Mount mounts[] = {{.volume = (char *) "v", .path = (char *) "/srv"}};
        AppOverrides apps[] = {{.name = (char *) "web",
                                .reference = (char *) "example.com/app",
                                .exec = exec,
                                .environment = {.items = environment, .n = 1},
                                .annotations = {.items = annotations, .n = 1},
                                .mounts = mounts,
                                .n_mounts = 1}};
        Volume volumes[] = {{.name = (char *) "v", .kind = VOLUME_HOST, .source = (char *) "/srv"}};
        const PodRequest q = {.apps = apps, .n_apps = 1, .volumes = volumes, .n_volumes = 1};
        _cleanup_free_ char *text = NULL;

        ASSERT_OK(format_request(&q, &text));
        for_each_failing_allocation(parse_request, text);
}

/* --- Files of the store -------------------------------------------------------------------------------- */

#define PLACE "https://example.com/app.aci"

static int read_place(void *userdata, Text *result, Error *e)
{
        _cleanup_remote_ Remote m = {};
        Fixture *f = userdata;

        int r = without_message(remote_read(f->store, PLACE, &m), e);
        text_addf(result, "%s %s %s %s %" PRIu64, m.image ?: "", m.etag ?: "", m.last_modified ?: "",
                  m.signer ?: "", m.expires_usec);
        return r;
}

static int write_place(void *userdata, Text *result, Error *e)
{
        const Remote m = {.image = (char *) "sha512-" HEX64 HEX64,
                          .etag = (char *) "\"an etag\"",
                          .last_modified = (char *) "Thu, 01 Jan 1970 00:00:00 GMT",
                          .signer = (char *) "0123456789abcdef0123456789abcdef01234567",
                          .expires_usec = 5};
        Fixture *f = userdata;

        int r = without_message(remote_write(f->store, PLACE, &m), e);
        unsigned at = allocations_suspend();
        if (r >= 0)
                r = read_place(f, result, e);
        allocations_resume(at);
        return r;
}

TEST(places)
{
        FIXTURE(f);

        for_each_failing_allocation(write_place, &f);
        for_each_failing_allocation(read_place, &f);
}

static int read_volume(void *userdata, Text *result, Error *e)
{
        _cleanup_named_volume_ NamedVolume v = {};
        Fixture *f = userdata;

        int r = named_volume_read(f->store, "data", &v, e);
        text_addf(result, "%s %o ", v.name ?: "", v.mode);
        add_pairs(result, &v.labels);
        return r;
}

static int create_volume(void *userdata, Text *result, Error *e)
{
        Pair labels[] = {{(char *) "a", (char *) "b"}, {(char *) "c", (char *) "d"}};
        const NamedVolume v = {.name = (char *) "data", .mode = 0750, .labels = {.items = labels, .n = 2}};
        Fixture *f = userdata;

        int r = named_volume_create(f->store, &v, e);
        unsigned at = allocations_suspend();
        if (r >= 0)
                r = read_volume(f, result, e);
        (void) rm_rf_at(store_fd(f->store), "volumes/data");
        if (count_entries(f->store, "volumes") > 0 || count_entries(f->store, "tmp") > 0)
                r = error_set(e, -ENOTEMPTY, "Something is left");
        allocations_resume(at);
        return r;
}

TEST(volumes)
{
        const NamedVolume v = {.name = (char *) "data", .mode = 0750};
        FIXTURE(f);

        for_each_failing_allocation(create_volume, &f);
        ASSERT_WORKS(f, named_volume_create(f.store, &v, &f.error));
        for_each_failing_allocation(read_volume, &f);
}

int main(void)
{
        if (access("/dev/shm", W_OK) >= 0)
                (void) setenv("TMPDIR", "/dev/shm", false);
        RUN(record_line);
        RUN(pod_config);
        RUN(app_request);
        RUN(places);
        RUN(volumes);
        return TEST_END();
}
