"""A locustfile with a login page, as Locust's documentation shows it."""

from flask import Blueprint, redirect, request, url_for
from flask_login import UserMixin, login_user
from locust import constant, events, task

from locust_llm import LLMUser

USER, PASSWORD = "tester", "let-me-in"


class ChatUser(LLMUser):
    wait_time = constant(0)

    @task
    def chat(self):
        self.client.chat(self.prompt(), name="chat")


class Tester(UserMixin):
    def get_id(self):
        return USER


@events.init.add_listener
def add_login(environment, **_):
    ui = environment.web_ui
    if ui is None:
        return
    ui.app.secret_key = "a test's"
    ui.login_manager.user_loader(lambda _: Tester())
    pages = Blueprint("auth", __name__, url_prefix=environment.parsed_options.web_base_path)
    ui.auth_args = {"username_password_callback": f"{pages.url_prefix}/login_submit"}

    @pages.route("/login_submit", methods=["POST"])
    def login_submit():
        if (request.form["username"], request.form["password"]) == (USER, PASSWORD):
            login_user(Tester())
            return redirect(url_for("locust.index"))
        return redirect(url_for("locust.login"))

    ui.app.register_blueprint(pages)
