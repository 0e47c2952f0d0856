// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook"
	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

// hostilePods returns pods whose FQDN is too long and in which everything that the API server
// accepts is large: 2.5 MB of what the policies and the webhook read, near its limit of 3 MiB, and
// 300 KB of the other lists and maps. With 2.5 MB the API server itself takes longer than its
// timeout for labels and pull secrets, and twelve seconds for containers. One pod is as large as
// etcd stores it, and six times as large in a review.
func hostilePods() map[string]string {
	const size, most, stored = 300_000, 2_500_000, 1_450_000
	lists := func(size int) func(item string) string {
		return func(item string) string {
			var text strings.Builder
			for i := 0; text.Len() < size; i++ {
				text.WriteString(strings.ReplaceAll(item, "#", strconv.Itoa(i)) + ",")
			}
			return strings.TrimSuffix(text.String(), ",")
		}
	}
	list, long := lists(size), lists(most)
	spec := func(fields string) string { return strings.Replace(tooLong, `"spec":{`, `"spec":{`+fields+`,`, 1) }
	meta := func(fields string) string {
		return strings.Replace(tooLong, `"metadata":{`, `"metadata":{`+fields+`,`, 1)
	}
	required := func(terms string) string {
		return spec(`"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[` + terms + `]}}}`)
	}
	containers := strings.Replace(tooLong, `"containers":[`, `"containers":[`+list(`{"name":"a#","image":"a"}`)+`,`, 1)
	return map[string]string{
		"equal options":      spec(`"dnsConfig":{"options":[` + list(`{"name":"a"}`) + `]}`),
		"distinct options":   spec(`"dnsConfig":{"options":[` + long(`{"name":"a#"}`) + `]}`),
		"values of options":  spec(`"dnsConfig":{"options":[` + long(`{"name":"ndots","value":"#"}`) + `]}`),
		"one long option":    spec(`"dnsConfig":{"options":[{"name":"` + strings.Repeat("é", most/2) + `"}]}`),
		"an escaped option":  spec(`"dnsConfig":{"options":[{"name":"` + strings.Repeat("<", stored) + `"}]}`),
		"control characters": spec(`"dnsConfig":{"options":[` + long(`{"name":"\u202e\u0000\u001b[31m"}`) + `]}`),
		"node selector":      spec(`"nodeSelector":{` + list(`"a#":""`) + `}`),
		"empty terms":        required(list(`{}`)),
		"terms":              required(long(`{"matchExpressions":[{"key":"kubernetes.io/os","operator":"Exists"}]}`)),
		"one term":           required(`{"matchExpressions":[` + long(`{"key":"kubernetes.io/os","operator":"Exists"}`) + `]}`),
		"labels":             meta(`"labels":{` + list(`"a#":""`) + `}`),
		"ignored codes": meta(`"annotations":{"dnsconfigurer.dev/ignore":"` +
			strings.Repeat("fqdn-too-long,", 256<<10/len("fqdn-too-long,")-10) + `"}`),
		"host aliases": spec(`"hostAliases":[` + list(`{"ip":"192.0.2.1","hostnames":["a#"]}`) + `]`),
		"pull secrets": spec(`"imagePullSecrets":[` + list(`{"name":"a#"}`) + `]`),
		"containers":   containers,
	}
}

// TestAPIServer_HostilePods: no list of a pod, however long, keeps the
// policies or the webhook from denying it: neither by the cost of an expression nor by time.
func TestAPIServer_HostilePods(t *testing.T) {
	c := apiserver.Start(t, withoutAccounts)
	w, pods := newWebhookTest(t, c), hostilePods()
	refuse := func(t *testing.T, by string) {
		for name, pod := range pods {
			s, err := w.create(t.Context(), []byte(pod), true)
			if err != nil || !strings.Contains(s.refused, by) || len(s.refused) > 6<<10 {
				t.Errorf("%s, %d bytes: %.300q, %v", name, len(pod), s.refused, err)
			}
		}
	}
	t.Run("policies", func(t *testing.T) {
		enforce(t, w.kubectl)
		refuse(t, "ValidatingAdmissionPolicy 'dnsconfigurer-errors'")
		w.kubectl.MustRun(t, "", "delete", "validatingadmissionpolicies,validatingadmissionpolicybindings", "--all")
	})
	t.Run("webhook", func(t *testing.T) {
		w.install(t, w.authority.PEM, "validating.yaml", "mutating.yaml")
		w.patient(t)
		defer w.serve(t, webhook.New(webhook.Config{Rules: vectors.DefaultNode().Rules(t)}))()
		w.until(t, "a denial", true)
		before := w.failedOpen(t)
		refuse(t, deniedBy)
		if after := w.failedOpen(t); after != before {
			t.Errorf("apiserver_admission_webhook_fail_open_count went from %v to %v", before, after)
		}
	})
}

// patient raises the timeout of the validating webhook: a slow machine may need more than 3 s.
func (w *webhookTest) patient(t *testing.T) {
	t.Helper()
	const names = "jsonpath={range .webhooks[*]}{.name}\n{end}"
	var patch []string
	for i := range strings.Fields(w.kubectl.MustRun(t, "", "get", "validatingwebhookconfiguration", "dnsconfigurer", "-o", names)) {
		patch = append(patch, fmt.Sprintf(`{"op":"replace","path":"/webhooks/%d/timeoutSeconds","value":30}`, i))
	}
	w.kubectl.MustRun(t, "", "patch", "validatingwebhookconfiguration", "dnsconfigurer", "--type=json",
		"--patch=["+strings.Join(patch, ",")+"]")
}
