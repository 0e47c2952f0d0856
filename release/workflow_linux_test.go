// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"sigs.k8s.io/yaml"
)

// step is a step of a workflow or of an action.
type step struct {
	Name, Uses, Run, Shell string
	Env                    map[string]string
}

// host runs steps as a runner of GitHub does.
type host struct {
	*testing.T
	dir         string   // of the checkout
	env         []string // of all steps
	expressions map[string]string
}

// run runs the steps that are commands, and returns their output. It stops at the first that fails.
func (h *host) run(steps []step) (string, error) {
	h.Helper()
	var out bytes.Buffer
	for _, s := range steps {
		if s.Run == "" {
			continue
		}
		args := []string{"-e", "-c", s.Run}
		if s.Shell == "bash" {
			args = append([]string{"--noprofile", "--norc", "-o", "pipefail"}, args...)
		}
		cmd := exec.CommandContext(h.Context(), "bash", args...)
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = h.dir, h.env, &out, &out
		for key, value := range s.Env {
			cmd.Env = append(cmd.Env, key+"="+h.evaluate(value))
		}
		if err := cmd.Run(); err != nil {
			return out.String(), err
		}
	}
	return out.String(), nil
}

// evaluate replaces the expressions in a value.
func (h *host) evaluate(value string) string {
	return regexp.MustCompile(`\$\{\{ (.*?) \}\}`).ReplaceAllStringFunc(value, func(text string) string {
		result, known := h.expressions[strings.TrimSuffix(strings.TrimPrefix(text, "${{ "), " }}")]
		if !known {
			h.Errorf("unknown expression %s", text)
		}
		return result
	})
}

// goEnv are the directories of Go, which HOME would change.
func goEnv(t *testing.T) []string {
	t.Helper()
	out := get(exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output())(t)
	dirs := strings.Fields(string(out))
	return append(os.Environ(), "GOCACHE="+dirs[0], "GOMODCACHE="+dirs[1])
}

// publishStubs replace the programs whose servers are elsewhere: the code host, and the authority that certifies the
// signer. They fail at arguments that they do not know.
var publishStubs = map[string]string{
	"gh": `#!/bin/sh
set -e
[ "$GH_TOKEN $1 $2 $4 $5" = "secret release create --verify-tag --notes" ]
git rev-parse --verify --quiet "refs/tags/$3"
page=$PAGES/$3; mkdir "$page"; shift 6; cp "$@" "$page"
`,
	"cosign": `#!/bin/sh
case "$*" in
"sign-blob --yes --bundle bin/release/checksums.txt.sigstore.json bin/release/checksums.txt") echo signed >"$4" ;;
"sign --yes "*@sha256:*) echo "$3" >"$PAGES/signed" ;;
*) exit 1 ;;
esac
`,
}

// TestWorkflow_Release runs the steps of release.yml for a tag, and installs what they have published: by the script, the
// chart by helm, the image by its name, and the program by "go install".
func TestWorkflow_Release(t *testing.T) {
	const tag = "v0.2.0"
	var workflow struct {
		Env  map[string]string
		Jobs map[string]struct{ Steps []step }
	}
	h := &host{T: t, dir: filepath.Join(t.TempDir(), "clone"), expressions: map[string]string{
		"github.repository_owner": "owner", "github.token": "secret"}}
	for _, args := range [][]string{{"clone", "--quiet", "..", h.dir}, {"-C", h.dir, "tag", "--force", tag}} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	succeed(t, yaml.Unmarshal(read(t, filepath.Join(h.dir, ".github", "workflows", "release.yml")), &workflow))
	logger := registry.Logger(log.New(io.Discard, "", 0))
	server := httptest.NewServer(authenticated(registry.New(logger, registry.WithReferrersSupport(true))))
	defer server.Close()
	where := strings.Replace(h.evaluate(workflow.Env["REGISTRY"]), "ghcr.io", strings.TrimPrefix(server.URL, "http://"), 1)
	programs, pages, home := t.TempDir(), t.TempDir(), t.TempDir()
	for name, text := range publishStubs {
		succeed(t, os.WriteFile(filepath.Join(programs, name), []byte(text), 0o755))
	}
	h.env = append(goEnv(t), "HOME="+home, "PATH="+programs+":"+os.Getenv("PATH"), "PAGES="+pages, "REGISTRY="+where,
		"PLATFORMS=linux/"+runtime.GOARCH, // four more platforms take minutes: TestArchive_Platforms has them
		"GITHUB_REF_NAME="+tag, "GITHUB_REPOSITORY=dnsconfigurer/dnsconfigurer", "GITHUB_ACTOR=robot")
	if out, err := h.run(workflow.Jobs["publish"].Steps); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	files := httptest.NewServer(http.FileServer(http.Dir(pages)))
	defer files.Close()
	h.env = append(h.env, "DNSCONFIGURER_MIRROR="+files.URL, "GOBIN="+filepath.Join(home, "go"), "TAG="+tag,
		"GOSUMDB=off", "GOPRIVATE=github.com/dnsconfigurer/*", // from the clone, by git
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+h.dir+".insteadOf", "GIT_CONFIG_VALUE_0="+homepage)
	helm := get(helmPath(t.Context(), ".."))(t)
	for _, tt := range []struct{ run, want string }{
		{`(cd $PAGES/$TAG && sha256sum --check --quiet checksums.txt && ls)`,
			"checksums.txt\nchecksums.txt.sigstore.json\ndnsconfig.yaml\ndnsconfigurer-0.2.0"},
		{`rm $(command -v cosign); sh $PAGES/$TAG/install.sh -d $HOME/bin && $HOME/bin/dnsconfigurer version`, "dnsconfigurer " + tag},
		{`go install ` + strings.TrimPrefix(homepage, "https://") + `/cmd/dnsconfigurer@latest && $GOBIN/dnsconfigurer version`,
			"dnsconfigurer " + tag},
		{helm + ` pull oci://$REGISTRY/charts/dnsconfigurer --plain-http && ` + helm + ` template dnsconfigurer dnsconfigurer-0.2.0.tgz`,
			`image: "` + where + "/dnsconfigurer:" + tag + `"`},
	} {
		out, err := h.run([]step{{Run: tt.run}})
		if err != nil || !strings.Contains(out, tt.want) {
			t.Errorf("%s: %v, want %q in\n%s", tt.run, err, tt.want, out)
		}
	}
	image := get(name.ParseReference(where + "/dnsconfigurer:" + tag))(t)
	credentials := remote.WithAuth(&authn.Basic{Username: "robot", Password: "secret"})
	published := get(remote.Head(image, credentials))(t)
	want := image.Context().Digest(published.Digest.String())
	if signed := strings.TrimSpace(string(read(t, filepath.Join(pages, "signed")))); signed != want.String() {
		t.Errorf("signed %q, want %s", signed, want)
	}
	index := get(remote.Index(want, credentials))(t)
	manifest := get(index.IndexManifest())(t)
	boms := get(remote.Referrers(image.Context().Digest(manifest.Manifests[0].Digest.String()), credentials))(t)
	if list, err := boms.IndexManifest(); err != nil || len(list.Manifests) != 1 || list.Manifests[0].ArtifactType != bomType {
		t.Errorf("SBOMs of the image: %+v, %v", list, err)
	}
}

// authenticated requires the password of the workflow.
func authenticated(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "robot" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// TestWorkflows_Pinned checks that each action is named by a commit, and each job has its permissions.
func TestWorkflows_Pinned(t *testing.T) {
	files, err := filepath.Glob("../.github/workflows/*.yml")
	if err != nil || len(files) != 2 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		text := string(read(t, file))
		for _, uses := range regexp.MustCompile(`(?m)uses: (.*)$`).FindAllStringSubmatch(text, -1) {
			if !regexp.MustCompile(`^(\S+@[0-9a-f]{40} # v\d+\.\d+\.\d+|\./\S+)$`).MatchString(uses[1]) {
				t.Errorf("%s: %s has no commit", file, uses[1])
			}
		}
		if !strings.Contains(text, "\npermissions: {}\n") && !strings.Contains(text, "\npermissions:\n  contents: read\n") {
			t.Errorf("%s: jobs without permissions of their own have more than contents: read", file)
		}
	}
}

const badPod = `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {dnsPolicy: None, containers: [{name: c, image: registry.example/c}]}
`

// checkout returns a directory with the file k8s/pod.yaml.
func checkout(t *testing.T, pod string) string {
	t.Helper()
	dir := t.TempDir()
	for file, text := range map[string]string{"k8s/pod.yaml": pod, "ci.yml": "jobs: {}\n"} {
		succeed(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o755))
		succeed(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
	}
	return dir
}

// testPipelines runs the examples for GitHub, by the steps of action.yml, and for GitLab, with BusyBox, on a checkout
// with an error and on one without.
func testPipelines(t *testing.T, r *release, page *httptest.Server) {
	for _, tt := range []struct {
		pod   string
		fails bool
	}{{badPod, true}, {strings.Replace(badPod, "None", "Default", 1), false}} {
		h := &host{T: t, dir: checkout(t, tt.pod), env: append(os.Environ(), "DNSCONFIGURER_MIRROR="+page.URL)}
		testAction(h, r, tt.fails)

		var pipeline struct{ DNS struct{ Script []string } }
		succeed(t, yaml.Unmarshal(read(t, "../examples/ci/gitlab.yml"), &pipeline))
		script := strings.Join(pipeline.DNS.Script, "\n")
		script = strings.ReplaceAll(script, homepage+"/releases/latest/download", page.URL+"/"+r.imageTag())
		programs := tools(t, "sh "+basicTools+"wget sha256sum", true)
		cmd := exec.CommandContext(t.Context(), filepath.Join(programs, "sh"), "-e", "-c", script)
		cmd.Dir, cmd.Env = h.dir, []string{"DNSCONFIGURER_MIRROR=" + page.URL, "PATH=" + programs}
		out, err := cmd.CombinedOutput()
		if (err != nil) != tt.fails || strings.Contains(string(out), "(none-without-nameservers)") != tt.fails {
			t.Errorf("gitlab: %v\n%s", err, out)
		}
	}
}

// testAction runs the steps of action.yml with the inputs of the example.
func testAction(h *host, r *release, fails bool) {
	var action struct {
		Inputs map[string]struct{ Default string }
		Runs   struct{ Steps []step }
	}
	var example struct {
		Jobs map[string]struct {
			Steps []struct{ With map[string]string }
		}
	}
	err := errors.Join(yaml.Unmarshal(read(h.T, "../action.yml"), &action),
		yaml.Unmarshal(read(h.T, "../examples/ci/github.yml"), &example))
	repository, pathErr := filepath.Abs("..")
	succeed(h, errors.Join(err, pathErr))
	h.expressions = map[string]string{"inputs.version || github.action_ref": r.imageTag(),
		"github.action_path": repository, "github.token": "secret"}
	for name, input := range action.Inputs {
		h.expressions["inputs."+name] = input.Default
	}
	for name, value := range example.Jobs["dns"].Steps[1].With {
		h.expressions["inputs."+name] = value
	}
	var uploaded []byte
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body struct {
			CommitSHA string `json:"commit_sha"`
			Ref       string
			SARIF     []byte
		}
		err := json.NewDecoder(r.Body).Decode(&body)
		if err != nil || r.Method+r.URL.Path+r.Header.Get("Authorization") != "POST/repos/o/r/code-scanning/sarifsBearer secret" ||
			body.CommitSHA != "c0ffee" || body.Ref != "refs/heads/main" {
			h.Errorf("%s %s: %+v, %v", r.Method, r.URL, body, err)
		}
		uploaded = body.SARIF
	}))
	defer api.Close()
	temp := h.TempDir()
	h.env = append(h.env, "RUNNER_TEMP="+temp, "GITHUB_OUTPUT="+temp+"/output",
		"GITHUB_SHA=c0ffee", "GITHUB_REF=refs/heads/main", "GITHUB_REPOSITORY=o/r", "GITHUB_API_URL="+api.URL)
	out, err := h.run(action.Runs.Steps)
	annotation := "::error file=k8s/pod.yaml,line=4,col=1,title=none-without-nameservers::"
	if (err != nil) != fails || strings.Contains(out, annotation) != fails {
		h.Errorf("action: %v\n%s", err, out)
	}
	sarif := filepath.Join(temp, "dnsconfigurer.sarif")
	if output := string(read(h.T, temp+"/output")); output != "sarif="+sarif+"\n" {
		h.Errorf("outputs %q", output)
	}
	zipped := get(gzip.NewReader(bytes.NewReader(uploaded)))(h)
	data, err := io.ReadAll(zipped)
	if err != nil || !bytes.Equal(data, read(h.T, sarif)) || bytes.Contains(data, []byte(`"none-without-nameservers"`)) != fails {
		h.Errorf("uploaded %q, %v", data, err)
	}
}

// TestHook runs pre-commit with the example.
func TestHook(t *testing.T) {
	install(t, "pre-commit", "pre-commit")
	clone := filepath.Join(t.TempDir(), "clone")
	if out, err := exec.Command("git", "clone", "--quiet", "..", clone).CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v\n%s", err, out)
	}
	head := get(exec.Command("git", "-C", clone, "rev-parse", "HEAD").Output())(t)
	config := strings.Replace(string(read(t, "../examples/ci/pre-commit.yaml")), homepage, clone, 1)
	config = strings.Replace(config, "rev: v0.2.0", "rev: "+strings.TrimSpace(string(head)), 1)
	home := t.TempDir()
	for _, tt := range []struct{ pod, want string }{
		{badPod, "error: Pod shop/web: spec.dnsConfig: dnsPolicy None without a nameserver (none-without-nameservers)"},
		{strings.Replace(badPod, "None", "Default", 1), "Passed"},
	} {
		h := &host{T: t, dir: checkout(t, tt.pod), env: append(goEnv(t), "HOME="+home)}
		succeed(t, os.WriteFile(filepath.Join(h.dir, ".pre-commit-config.yaml"), []byte(config), 0o644))
		out, err := h.run([]step{{Run: "git init --quiet . && git add . && pre-commit run --all-files"}})
		if (err == nil) != (tt.want == "Passed") || !strings.Contains(out, tt.want) {
			t.Errorf("%v, want %q in\n%s", err, tt.want, out)
		}
	}
}
