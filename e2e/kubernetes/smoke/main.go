// Command smoke is what runs in the pods of smoke.sh.
//
//	smoke serve FILE      answer GET / with the file's content; PUT / replaces it
//	smoke lookup NAME     print the addresses of a name
//	smoke get URL         print an answer
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		fail(fmt.Errorf("usage: smoke serve FILE | lookup NAME | get URL"))
	}
	switch os.Args[1] {
	case "serve":
		serve(os.Args[2])
	case "lookup":
		addresses, err := net.LookupHost(os.Args[2])
		fail(err)
		fmt.Println(strings.Join(addresses, "\n"))
	case "get":
		client := http.Client{Timeout: 3 * time.Second}
		response, err := client.Get(os.Args[2])
		fail(err)
		defer response.Body.Close()
		_, err = io.Copy(os.Stdout, response.Body)
		fail(err)
	}
}

func serve(path string) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	http.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		content, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Write(content)
	})
	http.HandleFunc("PUT /{$}", func(w http.ResponseWriter, r *http.Request) {
		if err := store(path, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	go func() { fail(http.ListenAndServe(":8080", nil)) }()
	<-ctx.Done()
}

// store syncs before it answers, since the test cuts the node's power right after.
func store(path string, content io.Reader) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := io.Copy(file, content); err != nil {
		return err
	}
	return file.Sync()
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
