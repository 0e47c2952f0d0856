// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/admission/webhook"
)

// pair returns a self-signed certificate with a serial number, and its key.
func pair(t *testing.T, serial int64, from, until time.Time) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "webhook"}, DNSNames: []string{"webhook"}, NotBefore: from, NotAfter: until,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// volume is a directory as the kubelet makes it of a Secret: tls.crt and tls.key lead
// through ..data to the files of one state, and ..data is swapped.
type volume struct {
	t      *testing.T
	dir    string
	states int
}

func newVolume(t *testing.T) *volume {
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
	v.states++
	state := filepath.Join(v.dir, "..", filepath.Base(v.dir)+"-"+strings.Repeat("i", v.states))
	v.must(os.Mkdir(state, 0o700))
	v.must(os.WriteFile(filepath.Join(state, "tls.crt"), cert, 0o600))
	v.must(os.WriteFile(filepath.Join(state, "tls.key"), key, 0o600))
	v.must(os.Symlink(state, filepath.Join(v.dir, "..data_tmp")))
	v.must(os.Rename(filepath.Join(v.dir, "..data_tmp"), filepath.Join(v.dir, "..data")))
}

func (v *volume) pair() (*webhook.KeyPair, error) {
	return webhook.NewKeyPair(filepath.Join(v.dir, "tls.crt"), filepath.Join(v.dir, "tls.key"), nil)
}

// TestKeyPair is the life of a certificate in a volume.
func TestKeyPair(t *testing.T) {
	v := newVolume(t)
	if _, err := v.pair(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without files: %v", err)
	}
	now := time.Now()
	cert1, key1 := pair(t, 1, now.Add(-time.Hour), now.Add(time.Hour))
	v.set(cert1, key1)
	p, err := v.pair()
	if err != nil {
		t.Fatal(err)
	}
	cert2, key2 := pair(t, 2, now.Add(-time.Hour), now.Add(time.Hour))
	cert3, key3 := pair(t, 3, now.Add(-2*time.Hour), now.Add(-time.Hour))
	cert4, key4 := pair(t, 4, now.Add(time.Hour), now.Add(2*time.Hour))
	for _, step := range []struct {
		name   string
		change func()
		serial int64
		err    string
	}{
		{"unchanged", func() {}, 1, ""},
		{"a certificate without its key", func() { v.set(cert2, key1) }, 1, "private key does not match public key"},
		{"the key follows", func() { v.set(cert2, key2) }, 2, ""},
		{"a renamed file of the same age and length", func() {
			path := filepath.Join(v.dir, "..data", "tls.crt")
			info, err := os.Stat(path)
			v.must(err)
			v.must(os.WriteFile(path+".new", []byte(strings.Repeat("x", int(info.Size()))), 0o600))
			v.must(os.Chtimes(path+".new", info.ModTime(), info.ModTime()))
			v.must(os.Rename(path+".new", path))
		}, 2, "failed to find any PEM data"},
		{"gone", func() { v.must(os.Remove(filepath.Join(v.dir, "..data"))) }, 2, "no such file"},
		{"back", func() { v.set(cert1, key1) }, 1, ""},
		{"expired", func() { v.set(cert3, key3) }, 3, "has expired on"},
		{"too early", func() { v.set(cert4, key4) }, 4, "is valid from"},
	} {
		step.change()
		c, err := p.Current()
		if c.Leaf.SerialNumber.Int64() != step.serial || (err == nil) != (step.err == "") || err != nil && !strings.Contains(err.Error(), step.err) {
			t.Errorf("%s: certificate %v, %v; want %d, %q", step.name, c.Leaf.SerialNumber, err, step.serial, step.err)
		}
	}
}

// TestServerEnds: a request that is open is answered, and one that comes while the
// server ends, too; then there is nobody.
func TestServerEnds(t *testing.T) {
	v := newVolume(t)
	v.set(pair(t, 1, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)))
	p, err := v.pair()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	entered, release := make(chan struct{}, 2), make(chan struct{})
	s := &webhook.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			entered <- struct{}{}
			<-release
			_, _ = io.WriteString(w, r.Proto)
		}),
		Certificate: p.Current, Lameduck: 2 * time.Second, Drain: time.Minute, Logger: slog.New(slog.DiscardHandler),
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, l) }()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	answers := make(chan string, 2)
	ask := func() {
		r, err := client.Get("https://" + l.Addr().String())
		if err != nil {
			answers <- err.Error()
			return
		}
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		answers <- string(text)
	}
	go ask()
	<-entered
	if err := s.Ready(); err != nil {
		t.Error(err)
	}
	end()
	go ask() // in the lameduck time
	<-entered
	close(release)
	for range 2 {
		if got := <-answers; got != "HTTP/2.0" {
			t.Errorf("got %q", got)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if s.Ready() == nil {
		t.Error("it is ready, and has ended")
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("somebody still listens")
	}
}
