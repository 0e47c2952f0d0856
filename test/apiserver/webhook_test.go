// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/certs"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

// TestAPIServerWebhook tests the webhook with a real API server and the registration
// of the chart. There is no Service network, so the objects contain an address
// instead of the Service.
func TestAPIServerWebhook(t *testing.T) {
	// No controller makes the service accounts of namespaces.
	c := apiserver.Start(t, "--disable-admission-plugins=ServiceAccount")
	w := newWebhookTest(t, c)
	t.Run("verdicts", w.verdicts)
	t.Run("autopath", func(t *testing.T) { w.autopath(t, c) })
	t.Run("restarts", w.restarts)
}

// webhookTest is an API server with a webhook.
type webhookTest struct {
	api     kubernetes.Interface
	kubectl *apiserver.Kubectl

	binary    string
	dir       string
	addr      string // where the API server asks
	authority *certs.Authority
}

func newWebhookTest(t *testing.T, c *apiserver.Cluster) *webhookTest {
	t.Helper()
	w := &webhookTest{dir: t.TempDir(), kubectl: c.Kubectl(t)}
	w.binary = process.Build(t)
	w.addr, w.authority = process.Loopback(t, 1)[0], certs.NewAuthority(t)
	w.api = kubernetes.NewForConfigOrDie(c.Config())
	return w
}

// service is how the registration names the Service. There is no Service network here.
var service = regexp.MustCompile(`(?m)^( +)service:\n(?: +(?:namespace|name|port): .*\n)*( +path: ` +
	`(\S+)\n)(?: +(?:namespace|name|port): .*\n)*`)

// install applies files of the chart, which register the webhook, with the address of the server and its
// authorities instead of the Service.
func (w *webhookTest) install(t *testing.T, authorities []byte, files ...string) {
	t.Helper()
	for _, file := range files {
		text := must.Get(os.ReadFile("../../deploy/chart/files/webhook/" + file))(t)
		client := "${1}url: https://" + w.addr + "$3\n${1}caBundle: " + base64.StdEncoding.EncodeToString(authorities) + "\n"
		w.kubectl.MustRun(t, service.ReplaceAllString(string(text), client), "apply", "--validate=strict", "-f", "-")
	}
}

// until waits until a pod whose FQDN is too long is denied, or is not.
func (w *webhookTest) until(t *testing.T, what string, denied bool) {
	t.Helper()
	poll.Until(t, what, func() bool {
		s, err := w.create(t.Context(), []byte(tooLong), true)
		return err == nil && strings.HasPrefix(s.refused, deniedBy) == denied
	})
}

// issue writes a new certificate for where the API server asks.
func (w *webhookTest) issue(t *testing.T, dir string) (certFile, keyFile string) {
	t.Helper()
	host, _, err := net.SplitHostPort(w.addr)
	if err != nil {
		t.Fatal(err)
	}
	return w.authority.Write(t, dir, host)
}

// serve serves a handler in this process until stop is called.
func (w *webhookTest) serve(t *testing.T, h http.Handler) (stop func()) {
	t.Helper()
	cert, key := w.issue(t, w.dir)
	pair := must.Get(webhook.NewKeyPair(cert, key, nil))(t)
	l := must.Get(net.Listen("tcp", w.addr))(t)
	s := &webhook.Server{Handler: h, Certificate: pair.Current, Drain: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, l) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// seen is what a client sees of an object that it creates.
type seen struct {
	refused  string   // why; "": it is not
	warnings []string // without those that the API server has itself
}

// HandleWarningHeader adds a warning of the API server.
func (s *seen) HandleWarningHeader(_ int, _, text string) { s.warnings = append(s.warnings, text) }

// create creates an object, or only seems to.
func (w *webhookTest) create(ctx context.Context, object []byte, dryRun bool) (s seen, err error) {
	var o unstructured.Unstructured
	if err := o.UnmarshalJSON(object); err != nil {
		return s, err
	}
	prefix := "/apis/" + o.GetAPIVersion()
	if o.GetAPIVersion() == "v1" {
		prefix = "/api/v1"
	}
	request := w.api.CoreV1().RESTClient().Post().WarningHandler(&s).Body(object).
		AbsPath(prefix, "namespaces", cmp.Or(o.GetNamespace(), "default"), strings.ToLower(o.GetKind())+"s")
	if dryRun {
		request.Param("dryRun", "All")
	}
	err = request.Do(ctx).Error()
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		s.refused, err = status.Status().Message, nil
	}
	return s, err
}

// deniedBy is how the API server says that it was us.
const deniedBy = `admission webhook "pods.validate.dnsconfigurer.dev" denied the request: `

// tooLong is a pod that would stay pending for ever.
const tooLong = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"checkout-worker-0",` +
	`"namespace":"default"},"spec":{"subdomain":"checkout-workers-of-payments-production",` +
	`"setHostnameAsFQDN":true,"containers":[{"name":"c","image":"registry.example/c"}]}}`

// verdicts: the API server passes on what the webhook denies and warns of. The tests of the webhook have
// the table of vectors.
func (w *webhookTest) verdicts(t *testing.T) {
	defer w.serve(t, webhook.New(webhook.Config{Rules: vectors.DefaultNode().Rules(t)}))()
	w.install(t, w.authority.PEM, "validating.yaml")
	w.until(t, "the first denial", true)
	for _, tt := range []struct{ name, object, refused, warning string }{
		{"denied", tooLong, deniedBy + "spec.setHostnameAsFQDN: FQDN checkout-worker-0.", ""},
		{"warned of", strings.Replace(validPod, `"ndots"`, `"nodts"`, 1), "", `option "nodts"`},
		{"valid", validPod, "", ""},
		{"refused by the API server", strings.Replace(validPod, `"ndots"`, `""`, 1), "Required value", ""},
	} {
		s, err := w.create(t.Context(), []byte(tt.object), true)
		warnings := strings.Join(s.warnings, " ")
		if err != nil || (s.refused == "") != (tt.refused == "") || !strings.Contains(s.refused, tt.refused) ||
			(warnings == "") != (tt.warning == "") || !strings.Contains(warnings, tt.warning) {
			t.Errorf("%s: %q, %q, %v", tt.name, s.refused, warnings, err)
		}
	}
}

// autopath: the KEP's own YAML is taken, and an update of the pod does not meet the
// immutable field.
func (w *webhookTest) autopath(t *testing.T, c *apiserver.Cluster) {
	defer w.serve(t, webhook.New(webhook.Config{Rules: vectors.Node{ClusterDomain: "cluster.local"}.Rules(t)}))()
	const yaml = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"default"},` +
		`"spec":{"dnsPolicy":"clusterFirstWithAutopath","containers":[{"name":"c","image":"registry.example/c"}]}}`
	if s, err := w.create(t.Context(), []byte(yaml), true); err != nil || !strings.Contains(s.refused, "Unsupported value") {
		t.Errorf("without us: %q, %v", s.refused, err)
	}
	w.install(t, w.authority.PEM, "mutating.yaml")
	poll.Until(t, "a pod with autopath", func() bool {
		s, err := w.create(t.Context(), []byte(yaml), false)
		return err == nil && s.refused == ""
	})
	pods := w.api.CoreV1().Pods("default")
	stored, err := pods.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || stored.Spec.DNSPolicy != "ClusterFirstWithHostNet" ||
		stored.Annotations[policy.OverrideAnnotation] != "ClusterFirstWithAutopath" {
		t.Fatalf("%+v, %v", stored, err)
	}
	stored.Spec.DNSPolicy, stored.Labels = "ClusterFirstWithAutopath", map[string]string{"again": "yes"}
	if stored, err = pods.Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil ||
		stored.Spec.DNSPolicy != "ClusterFirstWithHostNet" || stored.Labels["again"] != "yes" {
		t.Errorf("applied again: %+v, %v", stored, err)
	}
}
