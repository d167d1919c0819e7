/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The metadata service of a pod (metadata/metadata.h), from the pod's side: its key, its socket, and
 * starting it, also after it has ended.
 *
 * Most apps never use it. So the supervisor listens, and the first connection starts the service, which
 * takes it from the socket: a pod that does not use the service has no process for it.
 *
 * It serves the manifest that the supervisor has in memory, including apps that are being launched, so that each app finds
 * itself. The supervisor sends it at the start of the service, and at each change of the set of apps.
 *
 * The service itself has no state: the key is a file of the pod, which stays until the pod is removed, so
 * that its signatures can be verified as long; the socket and the token are the supervisor's. So a service
 * that was killed is replaced by one that serves the same at the same address, and connections wait
 * meanwhile. Replies that it has given stay valid. */

#include <arpa/inet.h>
#include <sys/socket.h>

#include "stage0/network/network.h"
#include "stage0/supervisor/services/metadata-key.h"
#include "stage0/supervisor/services/metadata-manifest.h"
#include "stage0/supervisor/services/metadata-service.h"
#include "stage0/supervisor/services/service-user.h"

/* No common service uses this port; with its own network namespace the pod has all ports for itself. If an app declares this
 * port, the service takes the next free one. */
#define METADATA_PORT 18112
#define RESTART_INTERVAL_USEC UINT64_C(1000000)
#define AGAIN_USEC UINT64_C(500000) /* before changes are sent again after a failure */

struct MetadataService {
        Pod *pod;
        sd_event *event; /* the caller's */
        sd_event_source *source, *restart_source, *first_source;
        sd_event_source *change_source; /* sends changes, once */
        MetadataClient *client; /* NULL: no connection has come yet, or it is about to be started again */
        KeyKeeper *keeper;
        uint64_t asked; /* number of the request whether the service may sign */
        char *token, *url;
        int program_fd, listen_fd;
        uint64_t started_usec;
};

/* --- Its socket ---------------------------------------------------------------------------------------- */

static int listen_on_loopback(void *userdata)
{
        uint16_t *port = userdata;
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_port = htons(*port),
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof(address);
        _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0)
                return -errno;
        if (bind(fd, (struct sockaddr *) &address, sizeof(address)) < 0 || listen(fd, 1024) < 0 ||
            getsockname(fd, (struct sockaddr *) &address, &size) < 0)
                return -errno;
        *port = ntohs(address.sin_port);
        return TAKE_FD(fd);
}

static bool is_declared(const PodManifest *m, uint32_t port)
{
        for (size_t i = 0; i < m->n_apps; i++) {
                const App *app = m->apps[i]->app;
                for (size_t k = 0; k < app->n_ports; k++)
                        if (port >= app->ports[k].port &&
                            port - app->ports[k].port < stage1_port_count(&app->ports[k]))
                                return true;
        }
        return false;
}

static uint16_t choose_port(const PodManifest *m)
{
        uint32_t port = METADATA_PORT;

        while (port < UINT16_MAX && is_declared(m, port))
                port++;
        return (uint16_t) port;
}

static int listen_in_network(pid_t pid, uint16_t *port)
{
        _cleanup_close_ int netns = network_namespace_open(pid);

        return netns < 0 ? netns : network_namespace_run(netns, listen_on_loopback, port);
}

static int on_first_connection(sd_event_source *source, int fd, uint32_t revents, void *userdata);

int metadata_service_listen(MetadataService *m, pid_t pid, Error *e)
{
        bool host = m->pod->config.net == NET_HOST;
        _cleanup_free_ char *url = NULL;
        _cleanup_close_ int fd = -EBADF;
        uint16_t port = host ? 0 : choose_port(m->pod->manifest); /* any free port of the host */

        if (m->url)
                return 0;
        fd = host ? listen_on_loopback(&port) : listen_in_network(pid, &port);
        if (fd < 0)
                return error_set_errno(e, fd, "Cannot listen for the metadata service of pod %s",
                                       pod_display_name(m->pod));
        if (xasprintf(&url, "http://127.0.0.1:%u/%s", port, m->token) < 0)
                return error_oom(e);
        int r = sd_event_add_io(m->event, &m->first_source, fd, EPOLLIN, on_first_connection, m);
        if (r < 0)
                return error_set_errno(e, r, "Cannot watch the socket of the metadata service of pod %s",
                                       pod_display_name(m->pod));
        m->listen_fd = TAKE_FD(fd);
        m->url = TAKE_PTR(url);
        /* For commands that run beside apps later. */
        r = pod_metadata_url_write(m->pod, m->url);
        return r < 0 ? error_set_errno(e, r, "Cannot record the metadata service of pod %s",
                                       pod_display_name(m->pod))
                     : 0;
}

const char *metadata_service_url(const MetadataService *m)
{
        return m ? m->url : NULL;
}

/* --- Requests of the service --------------------------------------------------------------------------- */

/* Also of a pod that has ended: its signatures are to be verified until it is removed. Apps may ask as often
 * as they like, about pods with the largest manifests: only the key is read. */
static int lookup_key(const char *uuid, uint8_t key[METADATA_KEY_SIZE], void *userdata)
{
        MetadataService *m = userdata;
        _cleanup_(pod_freep) Pod *p = NULL;

        int r = pod_look(m->pod->store, uuid, &p, NULL);
        return r < 0 ? r : metadata_key_read(p->dir_fd, key);
}

/* Not before the key by which it signs is durable. */
static int may_sign(uint64_t serial, void *userdata)
{
        MetadataService *m = userdata;

        m->asked = serial;
        return key_keeper_begin(m->keeper);
}

static void on_kept(bool kept, void *userdata)
{
        MetadataService *m = userdata;

        if (!kept)
                log_warning("Pod %s: the key by which its metadata service signs cannot be written to disk",
                            pod_display_name(m->pod));
        if (m->client)
                metadata_client_answer(m->client, m->asked, kept);
}

/* --- Content ------------------------------------------------------------------------------------------- */

/* The text files that the service serves, in memory while it is configured. */
typedef struct MetadataTexts {
        char *pod_manifest;
        MetadataApp *apps;
        char **image_manifests;
} MetadataTexts;

static void metadata_texts_done(MetadataTexts *t)
{
        free(t->pod_manifest);
        free(t->apps);
        strv_free(t->image_manifests);
}

static int read_image_manifest(MetadataService *m, const PodApp *app, MetadataApp *ret, char ***texts)
{
        _cleanup_free_ char *path = NULL;
        char *text;
        size_t size;

        int r = pod_app_path(m->pod, app, "manifest", &path);
        if (r >= 0)
                r = read_file_at(m->pod->dir_fd, path, MANIFEST_SIZE_MAX, &text, &size);
        if (r < 0)
                return r;
        *ret = (MetadataApp){.name = app->name,
                             .image_id = app->image_id,
                             .image_manifest = text,
                             .image_manifest_size = size};
        return strv_consume(texts, text);
}

static int read_texts(MetadataService *m, MetadataTexts *t, MetadataConfig *config)
{
        const PodManifest *manifest = m->pod->manifest;

        int r = pod_manifest_format(manifest, &t->pod_manifest);
        if (r >= 0)
                config->pod_manifest_size = strlen(t->pod_manifest);
        if (r >= 0 && m->pod->config.reduced_metadata) {
                _cleanup_free_ char *whole = TAKE_PTR(t->pod_manifest);
                r = metadata_manifest_reduce(whole, config->pod_manifest_size, &t->pod_manifest,
                                             &config->pod_manifest_size);
        }
        if (r < 0)
                return r;
        t->apps = calloc(manifest->n_apps + 1, sizeof(MetadataApp));
        if (!t->apps)
                return -ENOMEM;
        for (size_t i = 0; r >= 0 && i < manifest->n_apps; i++)
                r = read_image_manifest(m, manifest->apps[i], &t->apps[i], &t->image_manifests);
        config->pod_manifest = t->pod_manifest;
        config->apps = t->apps;
        config->n_apps = manifest->n_apps;
        return r;
}

static int start_client(MetadataService *m, Error *e)
{
        _cleanup_(metadata_texts_done) MetadataTexts texts = {};
        uint8_t key[METADATA_KEY_SIZE];
        MetadataConfig config = {.uuid = m->pod->uuid, .key = key, .token = m->token};
        uid_t uid = pod_service_user(&m->pod->config);
        char program[64];

        int r = metadata_key_read(m->pod->dir_fd, key);
        if (r == -ENOENT) { /* made once, so that a service that is started again signs by the same key */
                r = metadata_key_make(m->pod);
                if (r >= 0)
                        r = metadata_key_read(m->pod->dir_fd, key);
        }
        if (r >= 0)
                r = read_texts(m, &texts, &config);
        if (r < 0)
                return error_set_errno(e, r, "Cannot prepare the metadata service of pod %s",
                                       pod_display_name(m->pod));
        snprintf(program, sizeof(program), "/proc/%d/fd/%d", (int) getpid(), m->program_fd);
        r = metadata_client_start(&(MetadataStart){.program = program, .uid = uid, .gid = uid}, &config,
                                  &m->client, e);
        explicit_bzero(key, sizeof(key));
        if (r >= 0)
                metadata_client_set_may_sign(m->client, may_sign, m);
        return r;
}

/* --- Changes ------------------------------------------------------------------------------------------- */

static int send_changes(MetadataService *m, Error *e)
{
        _cleanup_(metadata_texts_done) MetadataTexts texts = {};
        uint8_t key[METADATA_KEY_SIZE];
        MetadataConfig config = {.uuid = m->pod->uuid, .key = key, .token = m->token};

        int r = metadata_key_read(m->pod->dir_fd, key);
        if (r >= 0)
                r = read_texts(m, &texts, &config);
        if (r < 0)
                (void) error_set_errno(e, r, "Cannot send changes to the metadata service of pod %s",
                                       pod_display_name(m->pod));
        else
                r = metadata_client_configure(m->client, &config, e);
        explicit_bzero(key, sizeof(key));
        return r;
}

/* Tries again if the channel is full, because the service does not read. A service that was started since the change has it
 * already. */
static int on_change(sd_event_source *source, uint64_t usec, void *userdata)
{
        MetadataService *m = userdata;
        _cleanup_error_ Error e = ERROR_NULL;

        if (!m->client || send_changes(m, &e) >= 0)
                return 0;
        log_debug("%s", e.message ?: "Cannot send changes to the metadata service");
        (void) sd_event_source_set_time_relative(source, AGAIN_USEC);
        (void) sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
        return 0;
}

/* Deferred, because a change has several steps, and may add or remove several apps. */
void metadata_service_changed(MetadataService *m)
{
        if (!m || !m->client)
                return;
        (void) sd_event_source_set_time_relative(m->change_source, 0);
        (void) sd_event_source_set_enabled(m->change_source, SD_EVENT_ONESHOT);
}

/* --- Process ------------------------------------------------------------------------------------------- */

static int on_message(sd_event_source *source, int fd, uint32_t revents, void *userdata);

static void stop(MetadataService *m)
{
        m->source = sd_event_source_disable_unref(m->source);
        m->client = metadata_client_free(m->client);
}

static int start(MetadataService *m, Error *e)
{
        m->started_usec = now_usec(CLOCK_MONOTONIC);
        int r = start_client(m, e);
        if (r >= 0)
                r = metadata_client_send_listener(m->client, m->listen_fd, e);
        if (r < 0)
                return r;
        r = sd_event_add_io(m->event, &m->source, metadata_client_fd(m->client), EPOLLIN, on_message, m);
        return r < 0 ? error_set_errno(e, r, "Cannot watch the metadata service") : 0;
}

static int on_restart(sd_event_source *source, uint64_t usec, void *userdata);

/* At once, but at most once a second. */
static int plan_restart(MetadataService *m)
{
        uint64_t since = now_usec(CLOCK_MONOTONIC) - m->started_usec;
        uint64_t delay = since < RESTART_INTERVAL_USEC ? RESTART_INTERVAL_USEC - since : 0;

        stop(m);
        m->restart_source = sd_event_source_disable_unref(m->restart_source);
        return sd_event_add_time_relative(m->event, &m->restart_source, CLOCK_MONOTONIC, delay, 0,
                                          on_restart, m);
}

static int start_or_plan(MetadataService *m)
{
        _cleanup_error_ Error e = ERROR_NULL;

        if (start(m, &e) >= 0)
                return 0;
        log_warning("%s", e.message ?: "The metadata service cannot be started");
        return plan_restart(m);
}

static int on_restart(sd_event_source *source, uint64_t usec, void *userdata)
{
        return start_or_plan(userdata);
}

static int on_first_connection(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        MetadataService *m = userdata;

        m->first_source = sd_event_source_disable_unref(m->first_source);
        return start_or_plan(m);
}

static int on_message(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
        MetadataService *m = userdata;
        _cleanup_error_ Error e = ERROR_NULL;

        int r = metadata_client_handle(m->client, lookup_key, m, &e);
        if (r >= 0)
                return 0;
        log_warning("%s%s", e.message ?: "The metadata service has failed",
                    r == -EREMOTEIO ? "" : "; it is started again");
        return r == -EREMOTEIO ? 0 : plan_restart(m);
}

/* The program is opened now: this version knows our protocol, even if another one is installed before it is
 * started. */
static int open_program(MetadataService *m, Error *e)
{
        _cleanup_free_ char *program = NULL;
        int r = helper_program_path(METADATA_PROGRAM, &program, e);

        if (r < 0)
                return r;
        m->program_fd = open(program, O_PATH | O_CLOEXEC);
        return m->program_fd < 0 ? error_set_errno(e, -errno, "Cannot open %s", program) : 0;
}

int metadata_service_new(Pod *p, sd_event *event, MetadataService **ret, Error *e)
{
        _cleanup_(metadata_service_freep) MetadataService *m = calloc(1, sizeof(MetadataService));

        if (!m)
                return error_oom(e);
        *m = (MetadataService){.pod = p, .event = event, .program_fd = -EBADF, .listen_fd = -EBADF};
        int r = open_program(m, e);
        if (r < 0)
                return r;
        r = metadata_token_generate(&m->token);
        if (r >= 0)
                r = key_keeper_new(p, event, on_kept, m, &m->keeper);
        if (r < 0)
                return error_set_errno(e, r, "Cannot generate the token of pod %s", pod_display_name(p));
        r = sd_event_add_time_relative(event, &m->change_source, CLOCK_MONOTONIC, 0, 1, on_change, m);
        if (r >= 0)
                r = sd_event_source_set_enabled(m->change_source, SD_EVENT_OFF);
        if (r < 0)
                return error_set_errno(e, r, "Cannot create an event loop");
        *ret = TAKE_PTR(m);
        return 0;
}

MetadataService *metadata_service_free(MetadataService *m)
{
        if (!m)
                return NULL;
        sd_event_source_disable_unref(m->first_source);
        sd_event_source_disable_unref(m->change_source);
        sd_event_source_disable_unref(m->restart_source);
        stop(m);
        key_keeper_free(m->keeper);
        safe_close(m->listen_fd);
        safe_close(m->program_fd);
        free(m->token);
        free(m->url);
        free(m);
        return NULL;
}
