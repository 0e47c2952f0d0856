// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/internal/admission/webhook"
	"github.com/dnsconfigurer/dnsconfigurer/test/certs"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// volume is a Secret volume like those of the kubelet: tls.crt and tls.key are links through
// ..data to the files of one version, and ..data is replaced.
type volume struct {
	t        testing.TB
	dir      string
	versions int
}

func newVolume(t testing.TB) *volume {
	v := &volume{t: t, dir: t.TempDir()}
	for _, name := range []string{"tls.crt", "tls.key"} {
		v.must(os.Symlink("..data/"+name, filepath.Join(v.dir, name)))
	}
	return v
}

func (v *volume) must(err error) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
}

func (v *volume) set(cert, key []byte) {
	v.t.Helper()
	v.versions++
	version := filepath.Join(v.dir, "..", filepath.Base(v.dir)+"-"+strings.Repeat("i", v.versions))
	v.must(os.Mkdir(version, 0o700))
	v.must(os.WriteFile(filepath.Join(version, "tls.crt"), cert, 0o600))
	v.must(os.WriteFile(filepath.Join(version, "tls.key"), key, 0o600))
	v.must(os.Symlink(version, filepath.Join(v.dir, "..data_tmp")))
	v.must(os.Rename(filepath.Join(v.dir, "..data_tmp"), filepath.Join(v.dir, "..data")))
}

func (v *volume) pair() (*webhook.KeyPair, error) {
	return webhook.NewKeyPair(filepath.Join(v.dir, "tls.crt"), filepath.Join(v.dir, "tls.key"), nil)
}

// TestKeyPair_Changes covers the changes of a certificate in a volume.
func TestKeyPair_Changes(t *testing.T) {
	v := newVolume(t)
	if _, err := v.pair(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without files: %v", err)
	}
	authority := certs.NewAuthority(t)
	cert1, key1 := authority.Issue(t, time.Minute, "webhook")
	v.set(cert1, key1)
	p := must.Get(v.pair())(t)
	cert2, key2 := authority.Issue(t, time.Minute, "webhook")
	cert3, key3 := authority.Issue(t, certs.Lifetime+time.Minute, "webhook")
	cert4, key4 := authority.Issue(t, -time.Minute, "webhook")
	for _, step := range []struct {
		name   string
		change func()
		serial int64
		err    string
	}{
		{"unchanged", func() {}, 1, ""},
		{"a certificate without its key", func() { v.set(cert2, key1) }, 1, "private key does not match public key"},
		{"its key", func() { v.set(cert2, key2) }, 2, ""},
		{"a renamed file of the same age and length", func() {
			path := filepath.Join(v.dir, "..data", "tls.crt")
			info, err := os.Stat(path)
			v.must(err)
			v.must(os.WriteFile(path+".new", []byte(strings.Repeat("x", int(info.Size()))), 0o600))
			v.must(os.Chtimes(path+".new", info.ModTime(), info.ModTime()))
			v.must(os.Rename(path+".new", path))
		}, 2, "failed to find any PEM data"},
		{"removed", func() { v.must(os.Remove(filepath.Join(v.dir, "..data"))) }, 2, "no such file"},
		{"restored", func() { v.set(cert1, key1) }, 1, ""},
		{"expired", func() { v.set(cert3, key3) }, 3, "expired on"},
		{"too early", func() { v.set(cert4, key4) }, 4, "is not valid before"},
	} {
		step.change()
		c, err := p.Current()
		if c.Leaf.SerialNumber.Int64() != step.serial || (err == nil) != (step.err == "") ||
			err != nil && !strings.Contains(err.Error(), step.err) {
			t.Errorf("%s: certificate %v, %v; want %d, %q", step.name, c.Leaf.SerialNumber, err, step.serial, step.err)
		}
	}
}

// TestKeyPair_Files: a handshake reads no device, and a certificate has a size.
func TestKeyPair_Files(t *testing.T) {
	dir := t.TempDir()
	empty, large := filepath.Join(dir, "empty"), filepath.Join(dir, "large")
	must.Succeed(t, errors.Join(os.WriteFile(empty, nil, 0o600), os.WriteFile(large, make([]byte, 1<<20+1), 0o600)))
	for _, tt := range []struct{ cert, key, want string }{
		{dir, empty, dir + ": not a regular file"},
		{large, empty, large + ": larger than 1048576 bytes"},
		{empty, empty, "tls: failed to find any PEM data in certificate input"},
	} {
		want := "reading " + tt.cert + " and " + tt.key + ": " + tt.want
		if _, err := webhook.NewKeyPair(tt.cert, tt.key, nil); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// runServer runs s on l until stop is called, with a certificate that client accepts. done
// receives the result of Run.
func runServer(t testing.TB, s *webhook.Server) (l net.Listener, client *http.Client, stop func(), done chan error) {
	t.Helper()
	v := newVolume(t)
	v.set(certs.NewAuthority(t).Issue(t, time.Minute, "webhook"))
	p := must.Get(v.pair())(t)
	l = must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s.Certificate, s.Logger = p.Current, slog.New(slog.DiscardHandler)
	ctx, stop := context.WithCancel(t.Context())
	done = make(chan error, 1)
	go func() { done <- s.Run(ctx, l) }()
	client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	t.Cleanup(client.CloseIdleConnections)
	return l, client, stop, done
}

// TestServer_Shutdown: requests in progress and requests in the lameduck time get a response.
// Then the port is closed.
func TestServer_Shutdown(t *testing.T) {
	t.Parallel() // mostly the lameduck time
	entered, release := make(chan struct{}, 2), make(chan struct{})
	s := &webhook.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			entered <- struct{}{}
			<-release
			_, _ = io.WriteString(w, r.Proto)
		}),
		Lameduck: 10 * time.Second, Drain: time.Minute,
	}
	l, client, stop, done := runServer(t, s)
	replies := make(chan string, 2)
	get := func() {
		r, err := client.Get("https://" + l.Addr().String())
		if err != nil {
			replies <- err.Error()
			return
		}
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		replies <- string(text)
	}
	go get()
	<-entered
	if err := s.Ready(); err != nil {
		t.Error(err)
	}
	stop()
	go get() // in the lameduck time
	<-entered
	close(release)
	for range 2 {
		if got := <-replies; got != "HTTP/2.0" {
			t.Errorf("got %q", got)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if s.Ready() == nil {
		t.Error("ready after the shutdown")
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) { // not a connection: another process may have the port
		t.Errorf("the port is open: %v", err)
	}
}

// TestServer_ClosesConnections: during the shutdown the server responds and then closes the
// connection. In a cluster the client's next connection leads to another replica.
func TestServer_ClosesConnections(t *testing.T) {
	s := &webhook.Server{
		Handler:  http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }),
		Lameduck: time.Minute,
	}
	l, client, stop, done := runServer(t, s)
	defer func() { // skips the lameduck time
		l.Close()
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}()
	isReused := func() bool { return reusesConnection(t, client, "https://"+l.Addr().String()) }
	isReused()
	for range 100 {
		if !isReused() {
			t.Fatal("another connection before the shutdown")
		}
	}
	stop()
	for s.Ready() == nil {
		runtime.Gosched()
	}
	for n := 1; isReused(); n++ {
		if n == 100 {
			t.Fatalf("%d requests on one connection during the shutdown", n)
		}
	}
}

// reusesConnection sends a request and reports whether it used an existing connection.
func reusesConnection(t *testing.T, client *http.Client, url string) bool {
	t.Helper()
	var info httptrace.GotConnInfo
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { info = i }})
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, url, nil))(t)
	reply := must.Get(client.Do(r))(t)
	defer reply.Body.Close()
	if text, err := io.ReadAll(reply.Body); err != nil || string(text) != "HTTP/2.0" {
		t.Fatalf("%q, %v", text, err)
	}
	return info.Reused
}
