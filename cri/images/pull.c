/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* PullImage: fetches an image of a registry, as 'acnspawn fetch' does, with the configuration of registries and mirrors of this
 * host. Credentials of the request are for the registry of the reference, or the one that the request names, and take
 * precedence over those of this host's files. */

#include "cri/cri-internal.h"
#include "prepare/registry/registry.h"

int cri_check_image(const Runtime__V1__ImageSpec *spec, Error *e)
{
        return spec && !isempty(spec->image) ? 0 : error_set(e, -EINVAL, "The request names no image");
}

/* --- Credentials --------------------------------------------------------------------------------------- */

/* The host of a server's address, which may be a URL: "https://example.com/v1/". */
static char *server_host(CriJob *j, const char *address)
{
        const char *scheme = strstr(address, "://"), *host = scheme ? scheme + 3 : address;
        char *copy = cri_strdup(&j->memory, host);

        if (copy)
                copy[strcspn(copy, "/")] = 0;
        return copy;
}

static int decode_auth(CriJob *j, const char *auth, RegistryLogin *ret, Error *e)
{
        _cleanup_(authorization_freep) char *user = NULL, *password = NULL;

        int r = registry_auth_decode(auth, &user, &password, e);
        if (r < 0)
                return r;
        ret->user = cri_strdup(&j->memory, user);
        ret->password = cri_strdup(&j->memory, password);
        return ret->user && ret->password ? 0 : error_oom(e);
}

static const char *given(const char *s)
{
        return isempty(s) ? NULL : s;
}

/* 1: the request has credentials. */
static int read_login(CriJob *j, const Runtime__V1__AuthConfig *a, RegistryLogin *ret, Error *e)
{
        if (!a)
                return 0;
        *ret = (RegistryLogin){.user = given(a->username),
                               .password = given(a->password),
                               .identity_token = given(a->identity_token),
                               .bearer_token = given(a->registry_token)};
        if (!isempty(a->server_address) && !(ret->registry = server_host(j, a->server_address)))
                return error_oom(e);
        if (ret->user || ret->identity_token || ret->bearer_token)
                return 1;
        if (isempty(a->auth))
                return 0;
        int r = decode_auth(j, a->auth, ret, e);
        return r < 0 ? r : 1;
}

/* --- The call ------------------------------------------------------------------------------------------ */

static int pull(CriJob *j, const char *reference, const RegistryLogin *login, Image **ret, Error *e)
{
        const FetchOptions o = {.policy = PULL_UPDATE,
                                .config_dirs = j->server->options->config_dirs,
                                .login = login};
        _cleanup_(fetcher_freep) Fetcher *fetcher = NULL;

        int r = fetcher_new(j->store, &o, &fetcher, e);
        if (r >= 0)
                r = fetcher_fetch(fetcher, reference, ret, e);
        if (r == -ENOENT)
                return cri_status(j, GRPC_NOT_FOUND, r);
        return r == -EACCES ? cri_status(j, GRPC_PERMISSION_DENIED, r) : r;
}

/* The reply is the image as it is in the store now, so a tag is requested again even if it is known. */
int cri_pull_image(CriJob *j, const void *request, void *reply, Error *e)
{
        const Runtime__V1__PullImageRequest *q = request;
        Runtime__V1__PullImageResponse *p = reply;
        _cleanup_(registry_reference_done) RegistryReference parts = {};
        _cleanup_(image_freep) Image *image = NULL;
        RegistryLogin login = {};

        int r = cri_check_image(q->image, e);
        if (r >= 0)
                r = registry_reference_parse(q->image->image, &parts, e);
        int has_login = r >= 0 ? read_login(j, q->auth, &login, e) : r;
        if (has_login < 0)
                return has_login;
        const char *reference = cri_printf(&j->memory, "docker://%s",
                                           startswith(q->image->image, "docker://") ?: q->image->image);
        r = reference ? pull(j, reference, has_login ? &login : NULL, &image, e) : error_oom(e);
        if (r < 0)
                return r;
        p->image_ref = cri_strdup(&j->memory, cri_image_id(image));
        return p->image_ref ? 0 : error_oom(e);
}
