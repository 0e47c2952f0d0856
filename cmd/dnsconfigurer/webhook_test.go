// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook"
	"github.com/dnsconfigurer/dnsconfigurer/test/certs"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
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
		must.Succeed(t, errors.Join(os.WriteFile(file+".new", []byte(text), 0o600), os.Rename(file+".new", file)))
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
	must.Succeed(t, p.signal(syscall.SIGHUP))
	expect("a longer domain", 2, `"allowed":false`)
	write("{}")
	must.Succeed(t, p.signal(syscall.SIGHUP))
	p.eventually("the error", func() bool { return strings.Contains(p.log.String(), "invalid configuration") })
	expect("what was before", 2, `"allowed":false`)

	must.Succeed(t, os.Remove(keyFile))
	expect("the certificate without its file", 2, `"allowed":false`)
	p.eventually("the end of readiness without the key", func() bool {
		r := must.Get(http.Get("http://" + health + "/readyz"))(t)
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
