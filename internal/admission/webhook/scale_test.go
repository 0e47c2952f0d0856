// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook"
	"github.com/dnsconfigurer/dnsconfigurer/test/vectors"
)

// ten is a StatefulSet of the API server with ten replicas. Its FQDNs have 64 characters with
// ordinals of one digit.
const ten = `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"cassandra-dc-east",
  "namespace":"storage","managedFields":[{"manager":"kubectl"}]},
	"spec":{"serviceName":"cassandra-ring-001","replicas":10,"ordinals":{"start":0},
	  "template":{"spec":{"setHostnameAsFQDN":true,"containers":[{"name":"c"}]}}},"status":{"replicas":10}}`

// scaling returns the review of a scale of storage/cassandra-dc-east, as the API server
// encodes it.
func scaling(group, resource, object string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u",
		"kind":{"group":"autoscaling","version":"v1","kind":"Scale"},"resource":{"group":%q,"version":"v1",
		  "resource":%q},"subResource":"scale",
		"name":"cassandra-dc-east","namespace":"storage","operation":"UPDATE","object":%s,"oldObject":null}}`, group, resource, object)
}

// stored is Config.OpenStatefulSet of an API server with one StatefulSet.
func stored(set string) func(context.Context, string, string) (io.ReadCloser, error) {
	return func(_ context.Context, namespace, name string) (io.ReadCloser, error) {
		if namespace != "storage" || name != "cassandra-dc-east" {
			return nil, fmt.Errorf("statefulsets.apps %q not found in %q", name, namespace)
		}
		return io.NopCloser(strings.NewReader(set)), nil
	}
}

// scaled returns the warnings for a scale in one line, the verdict that was counted, and the
// log.
func scaled(t *testing.T, c webhook.Config, path string, review []byte) (warnings, verdict, log string) {
	t.Helper()
	var text bytes.Buffer
	registry := prometheus.NewRegistry()
	c.Rules, c.Register, c.Logger = vectors.DefaultNode().Rules(t), registry, slog.New(slog.NewTextHandler(&text, nil))
	got := parseResponse(t, post(webhook.New(c), path, review))
	if !got.Allowed || got.Patch != nil {
		t.Errorf("%+v", got)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "dnsconfigurer_admission_requests_total" && m.GetCounter().GetValue() == 1 {
				verdict = m.GetLabel()[3].GetValue()
			}
		}
	}
	return strings.ReplaceAll(strings.Join(got.Warnings, " "), " ... ", " "), verdict, text.String()
}

// TestScale_Warnings: the warnings are those that the new number of replicas adds.
func TestScale_Warnings(t *testing.T) {
	fqdn := func(ordinal string, length int, excess string) string {
		return fmt.Sprintf(
			"spec.replicas: FQDN cassandra-dc-east-%s.cassandra-ring-001.storage.svc.cluster.local "+
				"would be %d characters, 64 is the limit; "+
				"shorten the name or the service name or the namespace by %s, or drop setHostnameAsFQDN", ordinal, length, excess)
	}
	with := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(ten) }
	eleven := with(`"replicas":10`, `"replicas":11`)
	for _, tt := range []struct {
		name, set, scale string
		want             string // the warning; "": there is none
	}{
		{"to the last ordinal that fits", with(`"replicas":10`, `"replicas":3`), `{"spec":{"replicas":10}}`, ""},
		{"to the first that does not", ten, `{"spec":{"replicas":11}}`, fqdn("10", 65, "1")},
		{"far beyond it", ten, `{"spec":{"replicas":1001}}`, fqdn("1000", 67, "3")},
		{"further, where some are already too long", eleven, `{"spec":{"replicas":12}}`, fqdn("11", 65, "1")},
		{"back to what fits", eleven, `{"spec":{"replicas":10}}`, ""},
		{"down, where what remains is too long", with(`"replicas":10`, `"replicas":1000`), `{"spec":{"replicas":11}}`, ""},
		{"to where it is, and that is too long", eleven, `{"spec":{"replicas":11}}`, ""},
		{"to nothing", eleven, `{"spec":{}}`, ""},
		{"from nothing, which is checked as one", with(`"replicas":10`, `"replicas":0`, "ring-001", "ring-0001"),
			`{"spec":{"replicas":1}}`, ""},
		{"late ordinals, by one", with(`"replicas":10`, `"replicas":1`, `"start":0`, `"start":9`),
			`{"spec":{"replicas":2}}`, fqdn("10", 65, "1")},
		{"late ordinals, all too long",
			with(`"replicas":10`, `"replicas":1`, `"start":0`, `"start":2147483647`, "ring-001", "r"),
			`{"spec":{"replicas":2147483647}}`, ""},
		{"to where the next digit would be too long",
			with(`"replicas":10`, `"replicas":3`, "ring-001", "ring-01"), `{"spec":{"replicas":11}}`,
			"spec.replicas: from ordinal 100 on the FQDN " +
				"cassandra-dc-east-100.cassandra-ring-01.storage.svc.cluster.local would be 65 characters, 64 is the limit; " +
				"stay below that ordinal, or shorten the name or the service name or the namespace by 1"},
		{"a host name that the API server will refuse", with("cassandra-dc-east", strings.Repeat("n", 61)), `{"spec":{"replicas":11}}`,
			"spec.replicas: the pods' host name \"" + strings.Repeat("n", 61) +
				"-10\" has 64 characters, 63 is the limit; the API server accepts the object and refuses what it creates; shorten it by 1"},
		{"other findings in the set", with(`"setHostnameAsFQDN":true`, `"dnsConfig":{"nameservers":["127.0.0.1"]}`),
			`{"spec":{"replicas":11}}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, verdict, log := scaled(t, webhook.Config{OpenStatefulSet: stored(tt.set)},
				webhook.PathValidate, scaling("apps", "statefulsets", tt.scale))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (verdict == "warned") != (tt.want != "") || tt.want == "" && verdict != "allowed" || log != "" {
				t.Errorf("counted as %q; log %q", verdict, log)
			}
		})
	}
}

// TestScale_Unread: a scale that cannot be checked is allowed without a warning.
func TestScale_Unread(t *testing.T) {
	type open = func(context.Context, string, string) (io.ReadCloser, error)
	fails := func(err error) open {
		return func(context.Context, string, string) (io.ReadCloser, error) { return nil, err }
	}
	padded := func(size int) open { return stored(ten + strings.Repeat(" ", size-len(ten))) }
	const eleven = `{"spec":{"replicas":11}}`
	for _, tt := range []struct {
		name  string
		open  open
		scale string
		want  string // the verdict
		log   string
	}{
		{"no access", nil, eleven, "passed", ""},
		{"not found", fails(errors.New(`statefulsets.apps "cassandra-dc-east" not found`)), eleven,
			"unread", "StatefulSet that is scaled: statefulsets.apps"},
		{"a set at the limit", padded(webhook.MaxStatefulSet), eleven, "warned", ""},
		{"a set beyond it", padded(webhook.MaxStatefulSet + 1), eleven, "unread", "larger than 4194304 bytes"},
		{"a set that is a list", stored("[1]"), eleven, "unread", "is a list, must be a mapping"},
		{"half a set", stored(ten[:100]), eleven, "unread", "unexpected EOF"},
		{"nothing of a set", stored("{}"), eleven, "allowed", ""},
		{"another type of scale", stored(ten), `{"spec":{"replicas":"11"}}`, "unread",
			"spec.replicas: is a string, must be a whole number"},
		{"a scale of more than 32 bits", stored(ten), `{"spec":{"replicas":2147483648}}`, "unread", "spec.replicas: is "},
		{"a scale that is a number", stored(ten), `7`, "unread", "is a number, must be a mapping"},
		{"no scale", stored(ten), `null`, "allowed", ""}, // to nothing
		{"a panic", func(context.Context, string, string) (io.ReadCloser, error) { panic("no") }, eleven, "panicked", "panic=no"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, verdict, log := scaled(t, webhook.Config{OpenStatefulSet: tt.open}, webhook.PathValidate,
				scaling("apps", "statefulsets", tt.scale))
			if verdict != tt.want || !strings.Contains(log, tt.log) || (log == "") != (tt.log == "") {
				t.Errorf("counted as %q, want %q; log %q, want %q", verdict, tt.want, log, tt.log)
			}
		})
	}
}

// TestScale_NotRead: the StatefulSet is read for a scale of a StatefulSet only.
func TestScale_NotRead(t *testing.T) {
	c := webhook.Config{OpenStatefulSet: func(_ context.Context, namespace, name string) (io.ReadCloser, error) {
		t.Errorf("%s/%s is read", namespace, name)
		return nil, errors.ErrUnsupported
	}}
	const eleven = `{"spec":{"replicas":11}}`
	set := scaling("apps", "statefulsets", eleven)
	for _, tt := range []struct {
		name, path string
		review     []byte
	}{
		{"a Deployment", webhook.PathValidate, scaling("apps", "deployments", eleven)},
		{"a StatefulSet of another group", webhook.PathValidate, scaling("apps.example", "statefulsets", eleven)},
		{"the status", webhook.PathValidate, bytes.Replace(set, []byte(`"subResource":"scale"`), []byte(`"subResource":"status"`), 1)},
		{"a creation", webhook.PathValidate, bytes.Replace(set, []byte("UPDATE"), []byte("CREATE"), 1)},
		{"another version", webhook.PathValidate, bytes.Replace(set, []byte(`"v1","kind":"Scale"`), []byte(`"v2","kind":"Scale"`), 1)},
		{"to be changed", webhook.PathMutate, set},
	} {
		if _, verdict, log := scaled(t, c, tt.path, tt.review); verdict != "passed" || log != "" {
			t.Errorf("%s: counted as %q; log %q", tt.name, verdict, log)
		}
	}
}

// TestScale_Timeout: an API server that stalls, before or within its response, delays the
// scale by OpenTimeout.
func TestScale_Timeout(t *testing.T) {
	for name, open := range map[string]func(ctx context.Context) (io.ReadCloser, error){
		"no response": func(ctx context.Context) (io.ReadCloser, error) { <-ctx.Done(); return nil, ctx.Err() },
		"half of one": func(ctx context.Context) (io.ReadCloser, error) { return io.NopCloser(stalling{ctx}), nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				c := webhook.Config{OpenStatefulSet: func(ctx context.Context, _, _ string) (io.ReadCloser, error) { return open(ctx) }}
				_, verdict, log := scaled(t, c, webhook.PathValidate, scaling("apps", "statefulsets", `{"spec":{"replicas":11}}`))
				if took := time.Since(start); verdict != "unread" || took != webhook.OpenTimeout ||
					!strings.Contains(log, "deadline exceeded") {
					t.Errorf("counted as %q after %v; log %q", verdict, took, log)
				}
			})
		})
	}
}

// stalling is a body that is never sent.
type stalling struct{ ctx context.Context }

func (s stalling) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// largeSet is ten with an annotation of 1 MiB.
var largeSet = strings.Replace(ten, `"namespace"`, `"annotations":{"a":"`+strings.Repeat("x", 1<<20)+`"},"namespace"`, 1)

// TestScale_LargeAtOnce: the review of a scale is small, and the StatefulSet may have 3 MB. Two of
// them are read at once, as of large reviews, and a small one does not wait for them.
func TestScale_LargeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const scales = 10
		var begun atomic.Int32 // StatefulSets that are read beyond 64 KiB
		release, set := make(chan struct{}), largeSet
		metrics := prometheus.NewRegistry()
		h := webhook.New(webhook.Config{Rules: vectors.DefaultNode().Rules(t), Register: metrics,
			OpenStatefulSet: func(context.Context, string, string) (io.ReadCloser, error) {
				rest := readerFunc(func(p []byte) (int, error) {
					begun.Add(1)
					<-release
					return 0, io.EOF
				})
				const head = 64 << 10
				return io.NopCloser(io.MultiReader(strings.NewReader(set[:head]), rest, strings.NewReader(set[head:]))), nil
			}})
		review := scaling("apps", "statefulsets", `{"spec":{"replicas":11}}`)
		warnings := make(chan int, scales)
		scale := func() { warnings <- len(parseResponse(t, post(h, webhook.PathValidate, review)).Warnings) }
		for range scales {
			go scale()
		}
		synctest.Wait()
		if n := begun.Load(); n != 2 {
			t.Errorf("%d StatefulSets are read at once, want 2", n)
		}
		time.Sleep(webhook.OpenTimeout)
		synctest.Wait()
		const want = `dnsconfigurer_admission_requests_total{code="200",endpoint="validate",operation="UPDATE",verdict="unread"} 8`
		if got := gathered(t, metrics); !strings.Contains(got, want) {
			t.Errorf("the others are not admitted: %s", got)
		}
		close(release)
		for range scales {
			<-warnings
		}
		scale() // what was reserved is released
		if n := <-warnings; n == 0 {
			t.Error("a later scale has no warning")
		}
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
