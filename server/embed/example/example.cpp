// Stores a few documents and finds one of them: MultiforaDB inside a small program.
#include <multifora.h>

#include <iostream>

using namespace multifora;

int main(int argc, char** argv) {
  auto database = Database::open(argc > 1 ? argv[1] : "example-data");
  if (!database) {
    std::cerr << database.error().message() << "\n";
    return 1;
  }
  DocumentBuilder insert;
  insert.append("insert", "cities");
  {
    ArrayBuilder documents = insert.array("documents");
    documents.object().append("name", "Bergen").append("people", 291'000);
    documents.object().append("name", "Pisa").append("people", 89'000);
  }
  const OwnedDocument insert_command = std::move(insert).finish();
  const OwnedDocument stored = (*database)->run_command("test", insert_command.view());
  std::cout << to_extended_json(stored.view()) << "\n";

  DocumentBuilder find;
  find.append("find", "cities");
  find.object("filter").object("people").append("$gt", 100'000);
  const OwnedDocument find_command = std::move(find).finish();
  const OwnedDocument found = (*database)->run_command("test", find_command.view());
  std::cout << to_extended_json(found.view()) << "\n";
  return found.view()["ok"].as_double() == 1.0 ? 0 : 1;
}
