// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func newFile(text string) config.File {
	return config.File{Path: "config.yaml", Text: []byte(text)}
}

// TestFields_EveryKind checks that each kind of api/v1alpha1 has its own checks: an unknown field
// is an error, and the defaults are valid.
func TestFields_EveryKind(t *testing.T) {
	for _, kind := range v1alpha1.Kinds() {
		text := must.Get(v1alpha1.Defaults(kind))(t)
		if _, err := checkFile(newFile(string(text)), true); err != nil {
			t.Errorf("%s: defaults: %v", kind, err)
		}
		unknown := newFile("apiVersion: dnsconfigurer.dev/v1alpha1\nkind: " + kind + "\nnosuchfield: 1\n")
		for _, fieldsOnly := range []bool{false, true} {
			if _, err := checkFile(unknown, fieldsOnly); err == nil || !strings.Contains(err.Error(), "nosuchfield") {
				t.Errorf("%s: %v: %v", kind, fieldsOnly, err)
			}
		}
	}
}

func TestFile_UnknownKind(t *testing.T) {
	path := newFile("apiVersion: v1\nkind: Pod\n")
	for _, fieldsOnly := range []bool{false, true} {
		if _, err := checkFile(path, fieldsOnly); err == nil || !strings.Contains(err.Error(), `kind: is "Pod"`) {
			t.Errorf("%v", err)
		}
	}
}

// TestFile_Places checks that a finding has the place of its field.
func TestFile_Places(t *testing.T) {
	host := writeFile(t, "nameserver 192.0.2.1\n")
	path := newFile("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nresolvConf: " + host +
		"\nclusterDNS: [10.96.0.10, 10.96.0.300]\n")
	found, err := checkFile(path, false)
	if err != nil || len(found) != 1 || found[0].Line != 4 || found[0].Column == 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestErrorFindings(t *testing.T) {
	if found := errorFindings("a.yaml", nil); len(found) != 0 {
		t.Errorf("%v", found)
	}
	found := errorFindings("a.yaml", errors.Join(
		&kube.InputError{Location: kube.Location{File: "a.yaml", Line: 3, Field: "mode"}, Err: errors.New("one")},
		errors.New("two"),
		&kube.InputError{Location: kube.Location{File: "b.yaml", Line: 3, Field: "mode"}, Err: errors.New("three")}))
	if len(found) != 3 || found[0].Line != 3 || found[0].Field != "mode" || found[0].Message != "one" ||
		found[1].Message != "two" || found[1].Severity != "error" ||
		found[2].File != "a.yaml" || found[2].Line != 0 || found[2].Message != "b.yaml:3: mode: three" {
		t.Errorf("%v", found)
	}
}

// TestRead_ConfigMapSize: the number of files in a ConfigMap is limited, because the positions of
// each cost as much as the whole ConfigMap.
func TestRead_ConfigMapSize(t *testing.T) {
	for n, want := range map[int]string{
		maxFiles:     "<nil>",
		maxFiles + 1: "stdin:2:1: data: more than 32 configuration files in the ConfigMap: check them one by one",
	} {
		text := "kind: ConfigMap\ndata:\n"
		for i := range n {
			text += fmt.Sprintf("  %d.yaml: |\n    kind: DNSConfiguration\n", i)
		}
		entries, _, err := read("-", strings.NewReader(text))
		if fmt.Sprint(err) != want || err == nil && len(entries) != n {
			t.Errorf("%d files: %d read, %v, want %s", n, len(entries), err, want)
		}
	}
}

func doctorResult() v1alpha1.DoctorResult {
	return v1alpha1.DoctorResult{
		Findings: []v1alpha1.DoctorFinding{
			{Code: "dns-endpoints-not-ready", Severity: "error", Object: "Service kube-system/kube-dns",
				Message: "the Service has no endpoints", Evidence: []string{"a", "b"}, Cause: "no pod", Next: "kubectl get pods"},
			{Code: "service-selects-nothing", Severity: "warning", Object: "Service shop/web", Message: "the selector matches no pod",
				Evidence: []string{"app=wbe"}, Cause: "c", Next: "n", More: 3},
		},
		NotChecked: []v1alpha1.DoctorNotChecked{{Checks: []string{"dns-memory", "dns-one-node"}, Why: "no permission to list pods"}},
		Passed:     60,
		Pod: &v1alpha1.DoctorPod{Namespace: "shop", Name: "db-0", Policy: "ClusterFirst", ResolvConf: "nameserver 10.96.0.10\n",
			Hostname: "db-0", FQDN: "db-0.db", Notes: []string{"8 queries"}},
		Probes: []v1alpha1.DoctorProbe{
			{Server: "10.96.0.10:53", Role: "service", Means: "network", Protocol: "udp", Name: "example.com.", Type: "A",
				RCode: "NOERROR", Answers: []string{"192.0.2.80"}, Micros: 1200},
			{Server: "10.96.0.10:53", Role: "service", Means: "ephemeral-container", Protocol: "tcp", Name: "example.com.", Type: "A",
				Error: "timeout", StartMicros: 1200, Micros: 3_000_000},
		},
	}
}

func TestWriteDoctor_Text(t *testing.T) {
	var b bytes.Buffer
	must.Succeed(t, WriteDoctor(&b, formatText, doctorResult()))
	want := `error: Service kube-system/kube-dns: the Service has no endpoints (dns-endpoints-not-ready)
  evidence: a
            b
  cause:    no pod
  next:     kubectl get pods

warning: Service shop/web: the selector matches no pod (service-selects-nothing)
  evidence: app=wbe
  cause:    c
  next:     n
  and 3 more with the code service-selects-nothing

Pod shop/db-0, dnsPolicy ClusterFirst, host name db-0, FQDN db-0.db
  nameserver 10.96.0.10
  note: 8 queries

not checked: dns-memory, dns-one-node
  why:      no permission to list pods
errors: 1, warnings: 4, notes: 0; checks passed: 60, not checked: 2; queries with a reply: 1 of 2
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestWriteDoctor_JSON(t *testing.T) {
	var b bytes.Buffer
	must.Succeed(t, WriteDoctor(&b, formatJSON, doctorResult()))
	var got v1alpha1.DoctorResult
	must.Succeed(t, json.Unmarshal(b.Bytes(), &got))
	if diff := cmp.Diff(doctorResult(), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// hostileTexts are what authors of objects may write.
var hostileTexts = []string{
	`<script>alert(1)</script>`,
	`"><img src=x onerror=alert(1)>`,
	"javascript:alert(1)",
	"\x1b[2J\u202e",
	`</pre></body>`,
}

// TestWriteDoctor_Hostile: no text becomes an element, an attribute or a control character.
func TestWriteDoctor_Hostile(t *testing.T) {
	r := doctorResult()
	all := strings.Join(hostileTexts, " ")
	r.Findings[0].Object, r.Findings[0].Message, r.Findings[0].Evidence, r.Findings[0].Next = all, all, hostileTexts, all
	r.Pod.Name, r.Pod.ResolvConf, r.Pod.Notes = all, all, hostileTexts
	r.NotChecked[0].Why = all
	r.Probes[0].Answers, r.Probes[1].Error = hostileTexts, all
	for _, format := range []string{formatText, formatHTML} {
		var b bytes.Buffer
		must.Succeed(t, WriteDoctor(&b, format, r, all))
		if strings.ContainsAny(b.String(), "\x1b\u202e") {
			t.Errorf("%s has control characters", format)
		}
		if format == formatHTML {
			checkElements(t, b.String())
		}
	}
}

// checkElements checks that a page has only the elements and attributes of its template.
func checkElements(t *testing.T, page string) {
	t.Helper()
	elements := strings.Fields("html head meta title style body h1 h2 h3 p br article code dl dt dd pre ul li table tr th td svg rect")
	attributes := strings.Fields("lang charset http-equiv content class width height x")
	z := html.NewTokenizer(strings.NewReader(page))
	n := 0
	for z.Next() != html.ErrorToken {
		token := z.Token()
		if token.Type != html.StartTagToken && token.Type != html.SelfClosingTagToken {
			continue
		}
		n++
		if !slices.Contains(elements, token.Data) {
			t.Errorf("element %s", token)
		}
		for _, a := range token.Attr {
			if !slices.Contains(attributes, a.Key) {
				t.Errorf("attribute %s of %s", a.Key, token.Data)
			}
		}
	}
	if !errors.Is(z.Err(), io.EOF) || n < 50 {
		t.Errorf("%d elements, %v", n, z.Err())
	}
}

// TestBars: the page is bounded, and every bar is within the timeline.
func TestBars(t *testing.T) {
	probes := make([]v1alpha1.DoctorProbe, maxBars+1)
	for i := range probes {
		probes[i].StartMicros, probes[i].Micros = int64(i*1000), int64(i)
	}
	list := bars(probes)
	if len(list) != maxBars {
		t.Errorf("%d bars", len(list))
	}
	for _, b := range list {
		if b.X < 0 || b.Width < 2 || b.X > chartWidth {
			t.Errorf("%+v", b)
		}
	}
}

// TestWriteDoctor_Page: the page names the cluster, and says by which means a server was queried.
func TestWriteDoctor_Page(t *testing.T) {
	var b bytes.Buffer
	must.Succeed(t, WriteDoctor(&b, formatHTML, doctorResult(), "API server https://a", "2026-11-28 18:00:00 UTC"))
	for _, want := range []string{"<p>API server https://a<br>2026-11-28 18:00:00 UTC<br></p>",
		"<td>network</td><td>udp</td>", "<td>ephemeral-container</td><td>tcp</td>"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
}

// TestWriteDoctor_Size: with as many findings as there may be, all texts at their limits and made
// of characters that are escaped, the page and the JSON have a few megabytes.
func TestWriteDoctor_Size(t *testing.T) {
	const findings, most = 75 * 20, 32 << 20
	f := doctorResult().Findings[0]
	f.Message = strings.Repeat(`"`, 512)
	f.Evidence = []string{f.Message, f.Message}
	r := v1alpha1.DoctorResult{}
	for range findings {
		r.Findings = append(r.Findings, f)
	}
	for _, format := range []string{formatHTML, formatJSON, formatText} {
		var b strings.Builder
		if err := WriteDoctor(&b, format, r); err != nil || b.Len() > most {
			t.Errorf("%s: %d bytes, %v", format, b.Len(), err)
		}
	}
}
