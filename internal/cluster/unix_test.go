// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cluster_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/cluster"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/logbuffer"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// TestLoadConfig_FIFO: the kubeconfig of a server, and the files that it names, are regular files or links
// to one, as in a volume of a pod. A FIFO would block the server for ever.
func TestLoadConfig_FIFO(t *testing.T) {
	dir := t.TempDir()
	fifo, token, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "token"), filepath.Join(dir, "link")
	must.Succeed(t, syscall.Mkfifo(fifo, 0o600))
	must.Succeed(t, os.WriteFile(token, []byte("secret"), 0o600))
	write := func(name, cluster, user string) string {
		path := filepath.Join(dir, name)
		text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
  clusters: [{name: c, cluster: {server: "https://192.0.2.1:6443"%s}}], users: [{name: u, user: {%s}}]}`, cluster, user)
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for path, want := range map[string]string{
		fifo: "not a regular file",
		write("ca", ", certificate-authority: fifo", ""): "certificate-authority: " + fifo + ": not a regular file",
		write("cert", "", "client-certificate: fifo"):    "client-certificate: " + fifo + ": not a regular file",
		write("key", "", "client-key: fifo"):             "client-key: " + fifo + ": not a regular file",
		write("pipe", "", "tokenFile: fifo"):             "tokenFile: " + fifo + ": not a regular file",
		write("device", "", "tokenFile: /dev/zero"):      "tokenFile: /dev/zero: not a regular file",
	} {
		if _, err := cluster.LoadConfig(path, "test"); fmt.Sprint(err) != "kubeconfig "+path+": "+want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	must.Succeed(t, os.Symlink(write("good", "", "tokenFile: token"), link))
	if cfg, err := cluster.LoadConfig(link, "test"); err != nil || cfg.BearerToken != "secret" {
		t.Errorf("%v, %v", cfg, err)
	}
}

// TestLoadUserConfig_Environment: a device in $KUBECONFIG would take all memory. /dev/null is an empty file,
// as for kubectl.
func TestLoadUserConfig_Environment(t *testing.T) {
	for path, want := range map[string]string{
		"/dev/zero": "kubeconfig /dev/zero: not a regular file",
		"/dev/null": "no kubeconfig found in $KUBECONFIG and ~/.kube/config: set --kubeconfig",
	} {
		t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "missing")+":"+path)
		if _, err := cluster.LoadUserConfig("", "", "test"); fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// manifest returns a static pod's file, with an unknown field and a second document: the
// kubelet accepts both.
func manifest(name, host string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n  namespace: kube-system\n"+
		"spec:\n  hostNetwork: true\n  hostname: %s\n"+
		"  fromTheFuture: {a: 1}\n  containers: [{name: c, image: i}]\n---\napiVersion: v1\nkind: ConfigMap\n", name, host)
}

func write(t *testing.T, dir, file, text string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
}

// eventually waits until ref is found with a hostname, or not found if host is "".
func eventually(t *testing.T, p *cluster.Pods, ref cluster.Ref, host string) {
	t.Helper()
	poll.UntilNil(t, ref.String(), func() error {
		pod, err := p.Lookup(t.Context(), ref)
		if host == "" && errors.Is(err, cluster.ErrNotFound) {
			return nil
		}
		if host == "" || err != nil || pod.Hostname != host {
			return fmt.Errorf("got %+v, %v; want host name %q", pod, err, host)
		}
		if pod.UID != ref.UID || pod.Name != ref.Name || pod.Policy != policy.ClusterFirst || !pod.HostNetwork {
			t.Errorf("%s: got %+v", ref, pod)
		}
		return nil
	})
}

func TestStaticPods_Changes(t *testing.T) {
	dir, log := t.TempDir(), new(logbuffer.Buffer)
	write(t, dir, "etcd.yaml", manifest("etcd", "first"))
	write(t, dir, ".hidden.yaml", manifest("hidden", "hidden"))
	write(t, dir, "bad.yaml", "kind: [")
	write(t, dir, "service.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n")
	write(t, dir, "empty", "")
	write(t, dir, "own", "{apiVersion: v1, kind: Pod, metadata: {name: own, uid: stated}, spec: {hostname: own, hostNetwork: true}}")
	must.Succeed(t, errors.Join(os.Mkdir(filepath.Join(dir, "sub"), 0o700), syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600)))
	p, stop := start(t, cluster.PodsConfig{Manifests: dir, InformerWait: 100 * time.Millisecond, Timeout: time.Minute,
		Logger: slog.New(slog.NewTextHandler(log, nil))})
	defer stop()

	etcd := staticRef("kube-system", "etcd-"+node, "hash")
	eventually(t, p, etcd, "first")
	eventually(t, p, staticRef("default", "own-"+node, "stated"), "own")
	fromAPI, fromURL := etcd, etcd
	fromAPI.Annotations = map[string]string{"kubernetes.io/config.source": "api"}
	fromURL.Annotations = map[string]string{"kubernetes.io/config.source": "http"}
	for _, ref := range []cluster.Ref{
		fromAPI, fromURL,
		staticRef("kube-system", "etcd", "hash"),
		staticRef("default", "etcd-"+node, "hash"),
		staticRef("default", "own-"+node, "other"),
		staticRef("kube-system", "hidden-"+node, "hash"),
	} {
		if _, err := p.Lookup(t.Context(), ref); !errors.Is(err, cluster.ErrNotFound) {
			t.Errorf("%s: %v", ref, err)
		}
	}

	write(t, dir, "etcd.yaml", manifest("etcd", "second"))
	eventually(t, p, etcd, "second")
	write(t, dir, "etcd.yaml.bak", manifest("etcd", "backup")) // the kubelet reads it too
	eventually(t, p, etcd, "backup")
	must.Succeed(t, os.Rename(filepath.Join(dir, "etcd.yaml.bak"), filepath.Join(dir, ".etcd.bak")))
	eventually(t, p, etcd, "second")
	must.Succeed(t, os.Remove(filepath.Join(dir, "etcd.yaml")))
	eventually(t, p, etcd, "")

	for _, file := range []string{"bad.yaml", "service.yaml", "empty", "sub", "fifo"} {
		if n := strings.Count(log.String(), "path="+filepath.Join(dir, file)+" "); n != 1 {
			t.Errorf("%s: logged %d times:\n%s", file, n, log)
		}
	}
}

// TestStaticPods_Late: the manifest is written after the lookup has begun.
func TestStaticPods_Late(t *testing.T) {
	dir := t.TempDir()
	p, stop := start(t, cluster.PodsConfig{Manifests: dir, InformerWait: time.Minute, Timeout: time.Minute})
	defer stop()
	time.AfterFunc(20*time.Millisecond, func() { write(t, dir, "etcd.json", manifest("etcd", "h")) })
	if _, err := p.Lookup(t.Context(), staticRef("kube-system", "etcd-"+node, "hash")); err != nil {
		t.Error(err)
	}
}

// TestStaticPods_SymbolicLink: inotify does not report the target of a link, so the lookup
// reads it.
func TestStaticPods_SymbolicLink(t *testing.T) {
	dir, target := t.TempDir(), t.TempDir()
	write(t, dir, "known.yaml", manifest("known", "h"))
	must.Succeed(t, os.Symlink(filepath.Join(target, "etcd.yaml"), filepath.Join(dir, "etcd.yaml")))
	p, stop := start(t, cluster.PodsConfig{Manifests: dir, InformerWait: time.Minute, Timeout: time.Minute})
	defer stop()
	eventually(t, p, staticRef("kube-system", "known-"+node, "hash"), "h")
	write(t, target, "etcd.yaml", manifest("etcd", "h"))
	if _, err := p.Lookup(t.Context(), staticRef("kube-system", "etcd-"+node, "hash")); err != nil {
		t.Error(err)
	}
}

// TestStaticPods_WithoutAPI covers the start of a control plane node: the API server is
// one of its static pods, and none of them may wait for it.
func TestStaticPods_WithoutAPI(t *testing.T) {
	slow := newAPIServer(t)
	slow.SetFault(kubeapi.Stall)
	stalling := httptest.NewServer(slow)
	defer stalling.Close()
	for name, url := range map[string]string{"refused": "http://" + process.Loopback(t, 1)[0], "stalling": stalling.URL} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "kube-apiserver.yaml", manifest("kube-apiserver", "h"))
			p, stop := start(t,
				cluster.PodsConfig{Client: clientOf(t, url, nil), Manifests: dir, InformerWait: time.Minute, Timeout: time.Minute})
			defer stop()
			ref := staticRef("kube-system", "kube-apiserver-"+node, "hash")
			// At once: the manifests may not have been read before the kubelet's first request.
			if _, err := p.Lookup(t.Context(), ref); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStaticPods_ManifestFirst has a mirror pod with another spec and an annotation: the
// manifest and the annotations of the request count. Without a manifest, the mirror pod
// counts, unless it is excluded.
func TestStaticPods_ManifestFirst(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "etcd.yaml", manifest("etcd", "of-manifest"))
	mirror := newMirror("kube-system", "etcd-"+node, "own", "hash")
	mirror.Spec.HostNetwork = true
	ts := httptest.NewServer(newAPIServer(t, mirror))
	defer ts.Close()
	cfg := cluster.PodsConfig{Client: clientOf(t, ts.URL, nil), Manifests: dir, InformerWait: time.Minute, Timeout: 2 * time.Minute}
	p, stop := start(t, cfg)
	defer stop()
	ref := staticRef("kube-system", "etcd-"+node, "hash")
	for range 3 { // also before the manifests were read
		if pod, err := p.Lookup(t.Context(), ref); err != nil ||
			pod.Hostname != "of-manifest" || pod.Override != "" {
			t.Errorf("got %+v, %v", pod, err)
		}
	}
	stop()
	cfg.InformerWait = 100 * time.Millisecond // passes before each of the following results
	p, stop = start(t, cfg)
	defer stop()
	write(t, dir, "etcd.yaml", manifest("other", "of-another"))
	eventually(t, p, ref, "host-of-own")
	ref.NoMirror = true
	eventually(t, p, ref, "")
}

// TestStaticPods_File: the kubelet's staticPodPath may be a file. It is read again when it is
// changed, replaced or made anew, and other files of its directory are not read.
func TestStaticPods_File(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "etcd.yaml", manifest("etcd", "first"))
	write(t, dir, "other.yaml", manifest("other", "h"))
	cfg := cluster.PodsConfig{Manifests: filepath.Join(dir, "etcd.yaml"), InformerWait: 100 * time.Millisecond, Timeout: time.Minute}
	p, stop := start(t, cfg)
	defer stop()
	etcd := staticRef("kube-system", "etcd-"+node, "hash")
	eventually(t, p, etcd, "first")
	if _, err := p.Lookup(t.Context(), staticRef("kube-system", "other-"+node, "hash")); !errors.Is(err, cluster.ErrNotFound) {
		t.Errorf("another file of the directory: %v", err)
	}
	write(t, dir, "etcd.yaml", manifest("etcd", "changed"))
	eventually(t, p, etcd, "changed")
	write(t, dir, ".new", manifest("etcd", "replaced"))
	must.Succeed(t, os.Rename(filepath.Join(dir, ".new"), filepath.Join(dir, "etcd.yaml")))
	eventually(t, p, etcd, "replaced")
	must.Succeed(t, os.Remove(filepath.Join(dir, "etcd.yaml")))
	eventually(t, p, etcd, "")
	write(t, dir, "etcd.yaml", manifest("etcd", "again"))
	eventually(t, p, etcd, "again")
}
