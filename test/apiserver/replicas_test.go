// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook/selfsigned"
	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// enough is how many admissions the restarts have to happen under, at least.
const enough = 500

// restarts gives two replicas behind a balancer new certificates and restarts them one after
// the other: no object bypasses the webhook. When both have stopped, pods are still created.
func (w *webhookTest) restarts(t *testing.T) {
	replicas := make([]*replica, 2)
	for i := range replicas {
		dir := t.TempDir()
		cert, key := w.issue(t, dir)
		replicas[i] = newReplica(t, w, dir, "--tls-cert", cert, "--tls-key", key)
	}
	defer w.balance(t, replicas)()
	for _, r := range replicas {
		r.start(t)
	}
	before := w.failedOpen(t)
	load := w.load(t)
	for i, r := range replicas {
		load.reach(t, int64(1+i)*enough/3)
		for _, r := range replicas {
			w.issue(t, r.dir)
		}
		load.restart(t, r)
	}
	load.reach(t, enough)
	load.stop()
	if after := w.failedOpen(t); after != before {
		t.Errorf("apiserver_admission_webhook_fail_open_count went from %v to %v", before, after)
	}
	t.Logf("%d admissions", load.admissions.Load())

	for _, r := range replicas {
		r.process.Kill()
	}
	if s, err := w.create(t.Context(), []byte(tooLong), false); err != nil || s.refused != "" {
		t.Errorf("without a webhook: %q, %v", s.refused, err)
	}
	if w.failedOpen(t) == before {
		t.Error("the API server does not count what passed unseen") // or we read the wrong metric
	}
}

// load are objects that are created, and all refused, two at a time.
type load struct {
	admissions atomic.Int64
	stop       func()
}

func (w *webhookTest) load(t *testing.T) *load {
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{}
	var creating sync.WaitGroup
	for range 2 {
		creating.Go(func() {
			for ctx.Err() == nil {
				s, err := w.create(context.WithoutCancel(ctx), []byte(tooLong), true)
				if err != nil || !strings.HasPrefix(s.refused, deniedBy) {
					t.Errorf("after %d admissions: %q, %v", l.admissions.Load(), s.refused, err)
					return
				}
				l.admissions.Add(1)
			}
		})
	}
	l.stop = sync.OnceFunc(func() {
		cancel()
		creating.Wait()
	})
	t.Cleanup(l.stop)
	return l
}

// reach waits until so many have been refused.
func (l *load) reach(t *testing.T, n int64) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("admission %d", n), func() bool { return l.admissions.Load() >= n || t.Failed() })
}

// restart restarts a replica, and has the other one asked in between.
func (l *load) restart(t *testing.T, r *replica) {
	t.Helper()
	r.process.Stop()
	l.reach(t, l.admissions.Load()+20)
	r.start(t)
}

var failOpen = regexp.MustCompile(`(?m)^apiserver_admission_webhook_fail_open_count\{.*\} (\d+)$`)

// failedOpen returns how many objects the API server has let pass without an answer.
func (w *webhookTest) failedOpen(t *testing.T) string {
	t.Helper()
	text, err := w.api.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var counts []string
	for _, m := range failOpen.FindAllSubmatch(text, -1) {
		counts = append(counts, string(m[0]))
	}
	return strings.Join(counts, "\n")
}

// replica is the command as a process.
type replica struct {
	dir, addr, health string
	process           *process.Process
}

func newReplica(t *testing.T, w *webhookTest, dir string, args ...string) *replica {
	t.Helper()
	addrs := process.Loopback(t, 2)
	r := &replica{dir: dir, addr: addrs[0], health: addrs[1]}
	r.process = &process.Process{Program: w.binary, LogFile: filepath.Join(r.dir, "log"),
		Args: append([]string{"webhook", "--listen", r.addr, "--http", r.health, "--lameduck",
			"500ms", "--cluster-domain", "cluster.local"}, args...)}
	t.Cleanup(func() {
		r.process.Kill()
		if t.Failed() {
			t.Log(r.process.Log())
		}
	})
	return r
}

func (r *replica) start(t *testing.T) {
	t.Helper()
	if err := r.process.Start(); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "a replica", r.ready)
}

func (r *replica) ready() bool {
	response, err := http.Get("http://" + r.health + "/readyz")
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// balancer works like a Service: a connection goes to a ready replica and stays there.
type balancer struct {
	replicas []*replica
}

// balance has connections to the address balanced until stop is called.
func (w *webhookTest) balance(t *testing.T, replicas []*replica) (stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	go (&balancer{replicas}).serve(l)
	return func() { l.Close() }
}

func (b *balancer) serve(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		go b.connect(client)
	}
}

func (b *balancer) connect(client net.Conn) {
	defer client.Close()
	for _, r := range b.replicas {
		if !r.ready() {
			continue
		}
		server, err := net.Dial("tcp", r.addr)
		if err != nil {
			continue
		}
		defer server.Close()
		go func() {
			_, _ = io.Copy(server, client)
			_ = server.(*net.TCPConn).CloseWrite()
		}()
		_, _ = io.Copy(client, server)
		return
	}
}

// selfSigned: two replicas that start at once, with the rights that the manifests give
// them, have one authority, and the API server trusts it. It asks by the name of a
// Service, which is an address by another name.
func (w *webhookTest) selfSigned(t *testing.T, c *apiserver.Cluster) {
	host, port, err := net.SplitHostPort(w.addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations"} {
		if err := w.api.AdmissionregistrationV1().RESTClient().Delete().Resource(resource).Name("dnsconfigurer").Do(
			t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(w.binary, "webhook", "manifests", "--self-signed").Output()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(out), "      port: 443\n", "      port: "+port+"\n")
	for document := range strings.SplitSeq(text, "\n---\n") {
		w.apply(t, document)
	}
	w.apply(t, "{apiVersion: v1, kind: Service, metadata: {name: dnsconfigurer-webhook, namespace: "+
		"dnsconfigurer}, spec: {type: ExternalName, externalName: "+host+"}}")

	kubeconfig := filepath.Join(w.dir, "kubeconfig")
	if text, err = c.Kubeconfig(c.Address(), "system:serviceaccount:dnsconfigurer:dnsconfigurer-webhook"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var replicas []*replica
	for range 2 {
		r := newReplica(t, w, t.TempDir(), "--self-signed", "--kubeconfig", kubeconfig)
		if err := r.process.Start(); err != nil {
			t.Fatal(err)
		}
		replicas = append(replicas, r)
	}
	defer w.balance(t, replicas)()
	for _, r := range replicas {
		poll.Until(t, "a replica", r.ready)
	}
	poll.Until(t, "a denial", func() bool {
		s, err := w.create(t.Context(), []byte(tooLong), true)
		return err == nil && strings.HasPrefix(s.refused, deniedBy)
	})
	secret, err := w.api.CoreV1().Secrets("dnsconfigurer").Get(t.Context(), "dnsconfigurer-webhook-tls", metav1.GetOptions{})
	if err != nil || bytes.Count(secret.Data["ca.crt"], []byte("BEGIN")) != 1 {
		t.Fatalf("%+v, %v", secret, err)
	}
	mustTrust(t, replicas, secret.Data["ca.crt"])
	w.rotation(t, replicas)
}

// rotation: years go by, in which the authority is replaced, and no object passes unseen.
// Replicas look at the Secret when they start; before, it is made to look older.
func (w *webhookTest) rotation(t *testing.T, replicas []*replica) {
	secrets := w.api.CoreV1().Secrets("dnsconfigurer")
	read := func() *corev1.Secret {
		t.Helper()
		s, err := secrets.Get(t.Context(), "dnsconfigurer-webhook-tls", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := read()
	before, load := w.failedOpen(t), w.load(t)
	for _, step := range []struct {
		what        string
		authorities func() []byte
		want        int  // authorities, when the replicas have looked
		renewed     bool // the certificate
	}{
		{"two thirds of the authority's life are over: it gets a successor", func() []byte {
			return older(t, first.Data["ca.crt"], first.Data["ca.key"], selfsigned.AuthorityLife*2/3)
		}, 2, false},
		{"everybody knows the successor: it signs", func() []byte {
			s := read()
			old, successor := pem.Decode(s.Data["ca.crt"])
			return append(pem.EncodeToMemory(old), older(t, successor, s.Data["ca.key"], 2*selfsigned.Settle)...)
		}, 2, true},
		{"the first one has expired", func() []byte {
			_, successor := pem.Decode(read().Data["ca.crt"])
			return append(older(t, first.Data["ca.crt"], first.Data["ca.key"], selfsigned.AuthorityLife), successor...)
		}, 1, false},
	} {
		s := read()
		s.Data["ca.crt"] = step.authorities()
		if _, err := secrets.Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, r := range replicas {
			load.restart(t, r)
		}
		load.reach(t, load.admissions.Load()+enough/3)
		now := read()
		if n := bytes.Count(now.Data["ca.crt"], []byte("BEGIN")); n != step.want ||
			bytes.Equal(now.Data["tls.crt"], s.Data["tls.crt"]) == step.renewed {
			t.Fatalf("%s: %d authorities, %s, before\n%s", step.what, n, now.Data["tls.crt"], s.Data["tls.crt"])
		}
		mustTrust(t, replicas, now.Data["ca.crt"])
	}
	load.stop()
	if after := w.failedOpen(t); after != before {
		t.Errorf("apiserver_admission_webhook_fail_open_count went from %v to %v", before, after)
	}
	t.Logf("%d admissions", load.admissions.Load())
}

// older returns the certificate of an authority as if it had been made so much earlier. It
// has the same key: who trusts one of the two trusts what either has signed.
func older(t *testing.T, certificate, key []byte, by time.Duration) []byte {
	t.Helper()
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	template := *pair.Leaf
	template.NotBefore, template.NotAfter = template.NotBefore.Add(-by), template.NotAfter.Add(-by)
	signer := pair.PrivateKey.(crypto.Signer)
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, signer.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// mustTrust dials the replicas as an API server does that trusts these authorities.
func mustTrust(t *testing.T, replicas []*replica, authorities []byte) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authorities)
	for _, r := range replicas {
		conn, err := tls.Dial("tcp", r.addr, &tls.Config{RootCAs: roots, ServerName: "dnsconfigurer-webhook.dnsconfigurer.svc"})
		if err != nil {
			t.Error(err)
			continue
		}
		conn.Close()
	}
}

// apply creates an object of the webhook's manifests, except the Deployment, which has no
// controller here.
func (w *webhookTest) apply(t *testing.T, document string) {
	t.Helper()
	object, err := yaml.YAMLToJSON([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	var o struct {
		metav1.TypeMeta
		Metadata metav1.ObjectMeta
	}
	if err := json.Unmarshal(object, &o); err != nil {
		t.Fatal(err)
	}
	if o.Kind == "Deployment" || o.Kind == "Service" && strings.Contains(document, "selector") {
		return
	}
	path := "/apis/" + o.APIVersion
	if o.APIVersion == "v1" {
		path = "/api/v1"
	}
	if o.Metadata.Namespace != "" {
		path += "/namespaces/" + o.Metadata.Namespace
	}
	resource := strings.ToLower(o.Kind) + "s"
	err = w.api.CoreV1().RESTClient().Post().AbsPath(path, resource).Param("fieldValidation", "Strict").
		SetHeader("Content-Type", "application/json").Body(object).Do(t.Context()).Error()
	if err != nil {
		t.Fatalf("%s %s: %v", o.Kind, o.Metadata.Name, err)
	}
}
