// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/test/certs"
)

// review sends a review of a pod whose FQDN has 14 characters and the cluster's domain, and
// returns the serial number of the server's certificate and the response.
func review(t *testing.T, addr string) (serial int64, answer string) {
	t.Helper()
	return reviewOf(t, addr, `"kind":{"version":"v1","kind":"Pod"},"operation":"CREATE",
		"object":{"metadata":{"name":"web","namespace":"shop"},"spec":{"subdomain":"web","setHostnameAsFQDN":true}}`)
}

// reviewOf sends another review.
func reviewOf(t *testing.T, addr, request string) (serial int64, answer string) {
	t.Helper()
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u",` + request + "}}"
	r, err := client.Post("https://"+addr+webhook.PathValidate, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	return r.TLS.PeerCertificates[0].SerialNumber.Int64(), string(text)
}

// webhookFields returns the fields that all tests have.
func webhookFields(certFile, keyFile string) string {
	return fmt.Sprintf("tls: {certFile: %q, keyFile: %q}\nlameduck: 1ms\n", certFile, keyFile)
}

// TestWebhook changes the certificate and the configuration while the command runs. Invalid
// ones change nothing.
func TestWebhook(t *testing.T) {
	dir, addr, health := t.TempDir(), freeAddr(t), freeAddr(t)
	authority := certs.NewAuthority(t)
	certFile, keyFile := authority.Write(t, dir, "webhook")
	file := filepath.Join(dir, "webhook.yaml")
	write := func(domain string) {
		t.Helper()
		text := "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: WebhookConfiguration\nnode: {clusterDomain: " + domain + "}\n" +
			webhookFields(certFile, keyFile)
		if err := errors.Join(os.WriteFile(file+".new", []byte(text), 0o600), os.Rename(file+".new", file)); err != nil {
			t.Fatal(err)
		}
	}
	write("cluster.local")
	p := &dnsProcess{t: t, http: health}
	p.signal, p.stop = startCommand(t,
		[]string{"webhook", "--config", file, "--listen", addr, "--http", health}, &p.log)
	p.ready()
	expect := func(what string, serial int64, want string) {
		t.Helper()
		p.eventually(what, func() bool {
			got, answer := review(t, addr)
			return got == serial && strings.Contains(answer, want)
		})
	}
	expect("the first answer", 1, `"allowed":true`)

	authority.Write(t, dir, "webhook")
	expect("the second certificate", 2, `"allowed":true`)

	write("a-domain-of-" + strings.Repeat("x", 40))
	if err := p.signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	expect("a longer domain", 2, `"allowed":false`)
	write("{}")
	if err := p.signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.eventually("the error", func() bool { return strings.Contains(p.log.String(), "invalid configuration") })
	expect("what was before", 2, `"allowed":false`)

	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	expect("the certificate without its file", 2, `"allowed":false`)
	p.eventually("the end of readiness without the key", func() bool {
		r, err := http.Get("http://" + health + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		return r.StatusCode == http.StatusServiceUnavailable
	})
	metrics := get(t, health, "/metrics")
	for _, want := range []string{
		`dnsconfigurer_admission_requests_total{code="200",endpoint="validate",operation="CREATE",verdict="denied"}`,
		`dnsconfigurer_admission_findings_total{code="fqdn-too-long"}`,
		"dnsconfigurer_webhook_certificate_expiry_timestamp_seconds", "dnsconfigurer_config_last_reload_success 0",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	p.stop()
}

// decodeManifests runs `webhook manifests` and decodes its output as strictly as an API server
// that rejects unknown fields. Documents of cert-manager are skipped.
func decodeManifests(t *testing.T, args ...string) (objects []runtime.Object, text string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), append([]string{"webhook", "manifests"}, args...), nil, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for document := range strings.SplitSeq(stdout.String(), "\n---\n") {
		if strings.Contains(document, "cert-manager.io/v1\n") {
			continue
		}
		o, _, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		objects = append(objects, o)
	}
	return objects, stdout.String()
}

func one[T any](t *testing.T, objects []runtime.Object) T {
	t.Helper()
	i := slices.IndexFunc(objects, func(o runtime.Object) bool { _, ok := o.(T); return ok })
	if i < 0 {
		t.Fatalf("there is no %T", *new(T))
	}
	return objects[i].(T)
}

// caManifests returns the objects for a certificate authority in a file, in the namespace dns.
func caManifests(t *testing.T) (objects []runtime.Object, bundle []byte) {
	t.Helper()
	bundle = certs.NewAuthority(t).PEM
	caFile := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(caFile, bundle, 0o600); err != nil {
		t.Fatal(err)
	}
	objects, text := decodeManifests(t, "--ca-file", caFile, "-n", "dns", "--cluster-domain",
		"corp.example", "--cluster-dns", "10.96.0.10,fd00::a")
	if strings.Contains(text, "${") || strings.Contains(text, "cert-manager") {
		t.Errorf("a placeholder, or another trust mode:\n%s", text)
	}
	return objects, bundle
}

// TestWebhookManifests_Rights: the selectors have the pods of the server, which may read StatefulSets, and
// nothing else.
func TestWebhookManifests_Rights(t *testing.T) {
	objects, _ := caManifests(t)
	deployment := one[*appsv1.Deployment](t, objects)
	pod, own := deployment.Spec.Template, deployment.Spec.Selector.MatchLabels
	for name, selector := range map[string]map[string]string{"Service": one[*corev1.Service](t, objects).Spec.Selector,
		"PodDisruptionBudget": one[*policyv1.PodDisruptionBudget](t, objects).Spec.Selector.MatchLabels, "Deployment": own} {
		if len(selector) == 0 || selector["app.kubernetes.io/name"] != pod.Labels["app.kubernetes.io/name"] {
			t.Errorf("the %s selects %v, the pods have %v", name, selector, pod.Labels)
		}
	}
	// The documentation selects the pods by it, and the selector of a Deployment is immutable.
	const component = "app.kubernetes.io/component"
	if pod.Labels[component] != "webhook" || own[component] != "" {
		t.Errorf("the pods have the labels %v, the Deployment selects %v", pod.Labels, own)
	}
	role, binding, account := one[*rbacv1.ClusterRole](t, objects),
		one[*rbacv1.ClusterRoleBinding](t, objects), one[*corev1.ServiceAccount](t, objects)
	rights := []rbacv1.PolicyRule{{APIGroups: []string{"apps"}, Resources: []string{"statefulsets"}, Verbs: []string{"get"}}}
	if !reflect.DeepEqual(role.Rules, rights) || binding.RoleRef.Name != role.Name ||
		binding.Subjects[0].Name != account.Name || binding.Subjects[0].Namespace != "dns" ||
		account.AutomountServiceAccountToken != nil || pod.Spec.AutomountServiceAccountToken != nil ||
		pod.Spec.ServiceAccountName != account.Name {
		t.Errorf("%+v may %+v", binding, role.Rules)
	}
}

// TestWebhookManifests_Hooks: the API servers call the Service, trust its certificate, and go on
// without it. They wait long enough for a StatefulSet that the server reads.
func TestWebhookManifests_Hooks(t *testing.T) {
	objects, bundle := caManifests(t)
	service := one[*corev1.Service](t, objects)
	checkHook := func(name, path string, c admissionregistrationv1.WebhookClientConfig, failure *admissionregistrationv1.FailurePolicyType,
		effects *admissionregistrationv1.SideEffectClass, timeout *int32, conditions int, excluded []string) {
		if c.Service.Namespace != service.Namespace || c.Service.Name != service.Name ||
			*c.Service.Port != service.Spec.Ports[0].Port || *c.Service.Path != path {
			t.Errorf("%s calls %+v", name, c.Service)
		}
		if !bytes.Equal(c.CABundle, bundle) || *failure != admissionregistrationv1.Ignore ||
			*effects != admissionregistrationv1.SideEffectClassNone || *timeout > 5 || conditions == 0 {
			t.Errorf("%s: failurePolicy %s, sideEffects %s, timeoutSeconds %d, %d matchConditions, caBundle %q",
				name, *failure, *effects, *timeout, conditions, c.CABundle)
		}
		if !slices.Equal(excluded, []string{"kube-system", "dns"}) {
			t.Errorf("%s excludes %v", name, excluded)
		}
	}
	for _, w := range one[*admissionregistrationv1.ValidatingWebhookConfiguration](t, objects).Webhooks {
		checkHook(w.Name, webhook.PathValidate, w.ClientConfig, w.FailurePolicy, w.SideEffects,
			w.TimeoutSeconds, len(w.MatchConditions), w.NamespaceSelector.MatchExpressions[0].Values)
		wait := time.Duration(*w.TimeoutSeconds) * time.Second
		if w.Name == "scale.validate.dnsconfigurer.dev" && wait < 2*webhook.OpenTimeout {
			t.Errorf("the timeout of the webhook is %v, that of reading a StatefulSet %v", wait, webhook.OpenTimeout)
		}
	}
	for _, w := range one[*admissionregistrationv1.MutatingWebhookConfiguration](t, objects).Webhooks {
		checkHook(w.Name, webhook.PathMutate, w.ClientConfig, w.FailurePolicy, w.SideEffects,
			w.TimeoutSeconds, len(w.MatchConditions), w.NamespaceSelector.MatchExpressions[0].Values)
	}
}

// TestWebhookManifests_Configuration: the configuration is valid, and the command accepts its
// arguments.
func TestWebhookManifests_Configuration(t *testing.T) {
	objects, _ := caManifests(t)
	pod := one[*appsv1.Deployment](t, objects).Spec.Template
	data := one[*corev1.ConfigMap](t, objects).Data
	args := pod.Spec.Containers[0].Args
	file := filepath.Join(t.TempDir(), filepath.Base(args[len(args)-1]))
	if err := os.WriteFile(file, []byte(data[filepath.Base(file)]), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"config", "check", file}, nil, &stdout, &stderr); code != exitOK ||
		!slices.Equal(args[:2], []string{"webhook", "--config"}) {
		t.Errorf("%v: exit code %d\n%s", args, code, &stderr)
	}
	c, err := webhook.Kind().FromFile(file).Load()
	if err != nil {
		t.Fatal(err)
	}
	if c.Node.ClusterDomain != "corp.example" || len(c.Node.ClusterDNS) != 2 {
		t.Errorf("the node is %+v", c.Node)
	}
	if grace := time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second; grace < config.Duration(c.Lameduck)+
		webhook.Drain+5*time.Second {
		t.Errorf("the pod has %v to terminate, and needs %v and %v", grace, config.Duration(c.Lameduck), webhook.Drain)
	}
}

// TestWebhookManifests_Trust compares the trust modes.
func TestWebhookManifests_Trust(t *testing.T) {
	objects, text := decodeManifests(t, "--cert-manager-issuer", "ClusterIssuer/internal", "--mutating=false")
	v := one[*admissionregistrationv1.ValidatingWebhookConfiguration](t, objects)
	if v.Annotations["cert-manager.io/inject-ca-from"] != "dnsconfigurer/dnsconfigurer-webhook" ||
		v.Webhooks[0].ClientConfig.CABundle != nil {
		t.Errorf("%+v", v.ObjectMeta)
	}
	noScale, _ := decodeManifests(t, "--cert-manager-issuer", "internal", "--scale=false")
	if one[*corev1.ServiceAccount](t, noScale).AutomountServiceAccountToken == nil ||
		one[*appsv1.Deployment](t, noScale).Spec.Template.Spec.AutomountServiceAccountToken == nil ||
		slices.ContainsFunc(noScale, func(o runtime.Object) bool { _, is := o.(*rbacv1.ClusterRole); return is }) ||
		len(one[*admissionregistrationv1.ValidatingWebhookConfiguration](t, noScale).Webhooks) != len(v.Webhooks)-1 {
		t.Error("without --scale the server has a token, rights or the webhook")
	}
	if !strings.Contains(text, "kind: ClusterIssuer\n    name: internal\n") || strings.Contains(text, "MutatingWebhookConfiguration") {
		t.Error(text)
	}
}
